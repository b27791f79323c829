"""A run or an instance as one page: whole in one file, for those who must be convinced by it."""

from fleetsieve.report.building import report_html

__all__ = ["report_html"]
