"""What a person sees: tables and sentences on standard output, progress on standard error."""
