"""An account of every cell: by what it is known, which limit removes it, and whether it can still change the decision."""

from fleetsieve.answers.diagnosis.bounds import Bound, bounds_of
from fleetsieve.answers.diagnosis.cells import CellAccount, Knowledge, cell_accounts
from fleetsieve.answers.diagnosis.document import account_document
from fleetsieve.answers.diagnosis.settling import Account, Next, account

__all__ = [
    "Account",
    "Bound",
    "CellAccount",
    "Knowledge",
    "Next",
    "account",
    "account_document",
    "bounds_of",
    "cell_accounts",
]
