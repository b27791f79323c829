"""A server of one replica and its GPUs: started, found ready, watched, stopped, and never left behind."""
