"""How often localisation names the true element, and how often it alone: thousands of random fabrics.

    python tests/bench/localise.py --cases 5000 --seed 1

Each case is a random fabric (1 to 3 layers, 1 to 8 rails, one or several spines, InfiniBand's or ECMP's
choice of paths) with one or two faults (node, NIC or its cable, leaf, spine, trunk; links in one direction or
both). A fault is "visible" if some pair would have passed without it. A case is "found" if all its visible
faults are named, as suspects or in what a suspect is ambiguous with.

A case is "identifiable" if the verdicts leave one answer. Elements count whole, without directions; a node
with one tested port and its cable are the same element. An element may explain a failed pair if it lies on
one of the shortest paths of the pair and no passing pair crossed it in that direction on all of its paths.
Then all of these hold:

- each failed pair met a visible fault, so that no fault is hidden behind others;
- of all sets of at most as many elements as there are visible faults, of which some element may explain each
  failed pair (sets with an element that they do not need left out), the visible faults are the only one. How
  many pairs fail and pass does not count here: one of several equal spines is never identifiable;
- no two NICs, cables or nodes would explain the same as one true switch or trunk ("two against one"): that is
  called ambiguous on purpose.

It is "alone" if the suspects and all that they are ambiguous with are then the visible faults and no other.
"names" is how many elements an answer names.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click

from fabricctl.model.stats import lower_bound
from fabricctl.verify.localise import localise


def faults() -> Any:
    """Return the module with the fabrics; test folders are no packages."""
    place = Path(__file__).parents[1] / "fakes" / "faults.py"
    spec = importlib.util.spec_from_file_location("fakes_faults", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fakes_faults"] = module
    spec.loader.exec_module(module)
    return module


@click.command()
@click.option("--cases", default=2000, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--show", default=0, help="So many cases that went wrong are shown.")
def main(cases: int, seed: int, show: int) -> None:
    """Count what localisation gets right."""
    fakes, tally, began = faults(), Counter[str](), time.monotonic()
    for number in range(cases):
        case = fakes.random_case(random.Random(f"{seed} {number}"))  # noqa: S311
        if not case.visible:
            tally["unseen"] += 1
            continue
        suspects = localise(case.verdicts(), case.world.fabric)
        wrong = judged(case, suspects, fakes, tally)
        if wrong and show:
            show -= 1
            click.echo(f"--- {number}: {wrong}; {case.spec} flows={case.flows} dark={case.dark}")
            click.echo(f"by_target={case.world.by_target} {case.faults} visible {len(case.visible)}")
            click.echo(f"{sum(map(bool, case.causes.values()))} of {len(case.causes)} failed")
            for suspect in suspects[:8]:
                click.echo(f"  {suspect.element} | {len(suspect.explains)} | {suspect.ambiguous_with}"[:400])
    click.echo(
        f"{cases} cases in {time.monotonic() - began:.0f} s; without a visible fault: {tally['unseen']}"
    )
    for what, of in (
        ("found", "visible"),
        ("found1", "visible1"),
        ("found2", "visible2"),
        ("alone", "identifiable"),
        ("alone1", "identifiable1"),
        ("alone2", "identifiable2"),
    ):
        good, total = tally[what], tally[of]
        if total:
            low = lower_bound(good, total)
            click.echo(f"{what}: {good} of {total} {of} = {good / total:.4f} (> {low:.4f} at 95 %)")
    for size in (1, 2):
        if tally[f"visible{size}"]:
            mean = tally[f"names{size}"] / tally[f"visible{size}"]
            click.echo(f"names of {size} visible: {mean:.1f} in the mean")
    click.echo(str(dict(tally)))


def judged(case: Any, suspects: Any, fakes: Any, tally: Counter[str]) -> str:
    """Count one case; return what is wrong with it."""
    names = fakes.named(suspects)
    everything = set().union(*names)
    size = len(case.visible)
    missing = [f for f in case.visible if not case.same(f.element) & everything]
    tally["visible"] += 1
    tally[f"visible{size}"] += 1
    wrong = ""
    if missing:
        kinds = "+".join(sorted(f.element.split()[0] for f in case.visible))
        tally[f"missed {kinds}"] += 1
        tally["missed, but fewer elements explain all"] += bool(case.explanations(size - 1))
        wrong = f"missing {[f.element for f in missing]}"
    else:
        tally["found"] += 1
        tally[f"found{size}"] += 1
    tally[f"names{size}"] += len(everything)
    tally["too many"] += len(suspects) > size
    truth = frozenset(min(case.same(f.element)) for f in case.visible)
    if case.alone and case.explanations(size) == [truth]:
        if case.two_for_one(truth):
            tally["two against one"] += 1
            return wrong
        tally["identifiable"] += 1
        tally[f"identifiable{size}"] += 1
        said = {frozenset(min(case.same(name)) for name in held) for held in names}
        if said == {frozenset({name}) for name in truth}:
            tally["alone"] += 1
            tally[f"alone{size}"] += 1
        else:
            wrong = f"{wrong} not alone"
    return wrong


if __name__ == "__main__":
    main()
