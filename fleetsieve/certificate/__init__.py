"""The certificate: the gap and its proof, the verdict, its words, its document, and its check from the files alone."""

from fleetsieve.certificate.certify import Certificate, Verdict, certify
from fleetsieve.certificate.check import Checked, check, under
from fleetsieve.certificate.document import certificate_document, gap_document, key_document, plan_document
from fleetsieve.certificate.gap import Gap, Lower, Upper, frontier_gap
from fleetsieve.certificate.sentence import change, placement, rests_on_bounds, verdict_sentence

__all__ = [
    "Certificate",
    "Checked",
    "Gap",
    "Lower",
    "Upper",
    "Verdict",
    "certificate_document",
    "certify",
    "change",
    "check",
    "frontier_gap",
    "gap_document",
    "key_document",
    "placement",
    "plan_document",
    "rests_on_bounds",
    "under",
    "verdict_sentence",
]
