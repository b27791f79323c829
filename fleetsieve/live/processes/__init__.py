"""A child process in a session of its own: started, watched, and gone with everything that it started when it is ended."""
