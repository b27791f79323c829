"""Whether the client left requests without a record: such a measurement shows the client, not the server.

A request that the client recorded as failed, refused or timed out is the server's. One of which it recorded nothing is its own
doing as long as the server lives, whether the load generator was killed, hung, ended early or lost what it wrote. One rule for all
of them: a load that was cut, or more than a small share of the window's requests without a record.
"""

from __future__ import annotations

from fleetsieve.live.load.protocol import GeneratorEnding, Sent

LOST_SHARE = 0.01
"""Of the window's requests, the share that may have no record: they then count as failed."""

LEAST_LOST = 2
"""One request without a record may always be, however few there are."""


def why_unrecorded(sent: Sent, held: float = 0.0) -> str:
    """Why a measurement lacks records of requests, where the server lived; "" where it does not.

    `held` are the requests that the server still had when the load generator was stopped at its deadline: these it did not answer
    in time. A load without hope, which whoever watched has stopped, has failed by what was recorded of it.
    """
    if sent.ending is GeneratorEnding.STOPPED and not sent.heard.succeeded:
        return ""
    inside = [row for row in sent.rows if row.sent_at_s >= 0.0]
    lost = sum(row.status == "missing" for row in inside)
    # Nothing is recorded at all where a load generator writes at its end: what it had sent is not known then.
    if sent.ending is GeneratorEnding.DEADLINE and held >= (max(1, lost) if sent.heard.recorded else 1):
        return ""
    if not sent.cut and (lost < LEAST_LOST or lost <= LOST_SHARE * len(inside)):
        return ""
    text = f"{lost} of {len(inside)} requests of the window left no record" if lost else "the load was cut short"
    return f"{text}: {sent.cut}" if sent.cut else text
