"""The fleet decision, solved: by exact enumeration (`frontier`), or as a MILP under HiGHS (`solving`)."""
