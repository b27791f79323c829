"""The study of the policies on variants of the grids (see `variants`), per family and regime, never only pooled.

    python benchmarks/study.py --out runs/study [--orders 15] [--jobs 2] [--every 8] [--show]

Every variant is run by decision-gap, random, grid, joint-uncertainty and shared-feature, and its clairvoyant floor is found; the
four slow policies (paper, targeted, voi, constrained-bo) run on each `--every`-th pair of variants of a base, one of either regime.
Finished work is in OUT/results.jsonl and is never done again, so the command can be interrupted; `--show` prints what is there.
Instances that decision-gap certifies after two cells or fewer are counted apart. Intervals are 95 % bootstrap ones over instances.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from variants import REGIMES, Variant, variants

from fleetsieve.certificate import Verdict
from fleetsieve.presentation.progress import progress
from fleetsieve.studies.compare import Case, Results, Store, compare
from fleetsieve.studies.comparison import Summary, interval95, mean_of, policy_summary, saving

CORE = ("decision-gap", "random", "grid", "joint-uncertainty", "shared-feature")
DEAR = ("paper", "targeted", "voi", "constrained-bo")
OURS = "decision-gap"
FEW_CELLS = 2


def chosen(every: int) -> list[tuple[Variant, bool]]:
    """The variants, and whether the dear policies run on them; bases in turn, so that early results speak of all of them."""
    places: dict[str, int] = {}
    found = []
    for variant in variants():
        base = variant.instance.name.rsplit("-v", 1)[0]
        place = places[base] = places.get(base, -1) + 1
        found.append((place, variant, place // len(REGIMES) % every == 0))
    found.sort(key=lambda item: ("four-class" in item[1].instance.name, item[0]))
    return [(variant, dear) for _, variant, dear in found]


def case_of(variant: Variant) -> Case:
    return Case(variant.instance.name, variant.instance, variant.table)


def report(family: str, found: Sequence[Results]) -> Iterator[str]:
    """What one family of instances shows."""
    ours = [policy_summary(results, OURS) for results in found]
    trivial = sum(s.fewest_cells <= FEW_CELLS for s in ours)
    kept = [(results, s) for results, s in zip(found, ours, strict=True) if s.fewest_cells > FEW_CELLS]
    yield f"{family}: {len(found)} instances, {trivial} of them certified after {FEW_CELLS} cells or fewer and left out below"
    if not kept:
        return
    random = [policy_summary(results, "random") for results, _ in kept]
    mean, baseline = (float(np.mean([s.mean_gpu_s for s in own])) for own in ([s for _, s in kept], random))
    low, high = interval95(saving, [s.mean_gpu_s for _, s in kept], [s.mean_gpu_s for s in random], paired=True)
    saved = f"{1 - mean / baseline:.1%} ({low:.1%} to {high:.1%})"
    yield f"  saved against random: {saved}, {mean:,.0f} against {baseline:,.0f} GPU-seconds"
    yield f"  fewer than random in {np.mean([s.beats_random_share for _, s in kept]):.2%} of single draws"
    yield from _floors(kept)
    yield f"  above the full grid: {sum(s.above_grid for _, s in kept)}; undecided: {sum(s.undecided for _, s in kept)}"
    wrong = sum(policy_summary(results, policy).wrong_certificates for results in found for policy in results.runs)
    runs = sum(len(own) for results in found for own in results.runs.values())
    certified = [run for results, _ in kept for run in results.runs[OURS] if run.verdict == Verdict.FEASIBLE]
    largest = max((run.regret for run in certified), default=0.0)
    yield f"  wrong certificates: {wrong} of {runs:,} runs of all policies; largest regret of our certified plans {largest:.4f}"
    for policy in (*CORE[1:], *DEAR):
        own = [(results, s) for results, s in kept if policy in results.runs]
        if own:
            differences = [policy_summary(results, policy).mean_gpu_s - s.mean_gpu_s for results, s in own]
            low, high = interval95(mean_of, differences)
            more = f"{np.mean(differences):+,.0f} ({low:+,.0f} to {high:+,.0f})"
            yield f"  {policy} against ours: {more} GPU-seconds on {len(own)} instances"


def _floors(kept: Sequence[tuple[Results, Summary]]) -> Iterator[str]:
    pairs = [
        (s, results.floor) for results, s in kept if results.floor is not None and s.ratio_to_clairvoyant is not None
    ]
    if not pairs:
        return
    ratios = [s.ratio_to_clairvoyant for s, _ in pairs]
    exact = sum(floor.exact for _, floor in pairs)
    whole = sum(s.mean_gpu_s for s, _ in pairs) / sum(floor.lower_gpu_s for _, floor in pairs)
    low, high = interval95(mean_of, ratios)
    yield (
        f"  of the clairvoyant floor: {np.mean(ratios):.3f}x in the mean ({low:.3f} to {high:.3f}), {whole:.3f}x in all;"
        f" {exact} of {len(pairs)} floors exact, the others proven lower bounds"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--orders", type=int, default=15)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    store = Store(options.out / "results.jsonl")
    work = chosen(options.every)
    done: dict[str, Results] = {}
    for policies, floor, cases in (
        (DEAR, False, [case_of(v) for v, dear in work if dear]),
        (CORE, True, [case_of(v) for v, _ in work]),
    ):
        if options.show:
            cases = [c for c in cases if store.has(c, policies, orders=options.orders, floor=floor)]
        if not cases:
            continue
        with progress(f"{policies[0]} and {len(policies) - 1} more on {len(cases)} instances") as advance:
            found = compare(
                cases, policies, orders=options.orders, jobs=options.jobs, floor=floor, store=store, progress=advance
            )
        for results in found:
            before = done.get(results.case.name)
            runs = {**(before.runs if before else {}), **results.runs}
            done[results.case.name] = Results(results.case, runs, results.floor or (before.floor if before else None))
    groups: dict[str, list[Results]] = {}
    for variant, _ in work:
        if variant.instance.name in done and OURS in done[variant.instance.name].runs:
            for group in (variant.family, f"{variant.family}, {variant.regime}"):
                groups.setdefault(group, []).append(done[variant.instance.name])
    for group, own in groups.items():
        print("\n".join(report(group, own)))


if __name__ == "__main__":
    main()
