"""The certificate: the gap and its proof, the verdict, its document, and its check from the files alone."""

from fleetsieve.certificate.certify import Certificate, Verdict, certify
from fleetsieve.certificate.gap import Gap, Lower, Upper, frontier_gap

__all__ = ["Certificate", "Gap", "Lower", "Upper", "Verdict", "certify", "frontier_gap"]
