"""Figures in a page of their own or of a report: whole without a network, and nothing in them can run.

Class names, notes and log lines come from files. They reach a page as text of an escaping template or as JSON in a data block that
no browser executes, with `<`, `>` and `&` written as escapes, so that no text can end the block. The page's policy lets the two
scripts that are named by their digests run and nothing else, so even an error here could load and run nothing. Expressions of a
figure are interpreted, never compiled.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from html import escape
from typing import Any

from fleetsieve.figures.drawing import Chart, altair
from fleetsieve.figures.palette import style_sheet

STYLE = """
body{margin:0;padding:1rem;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,'Segoe UI',Helvetica,Arial,sans-serif}
.figure{max-width:100%;overflow-x:auto;--printed:680}
.figure svg{display:block}
.vega-embed{width:100%;display:block!important}
#vg-tooltip-element.vg-tooltip{background:var(--paper)!important;color:var(--ink)!important;border:1px solid var(--soft)!important;
max-width:min(26rem,90vw);font:12.5px/1.4 system-ui,sans-serif!important;box-shadow:0 2px 10px rgba(0,0,0,.25)!important}
#vg-tooltip-element table tr td{vertical-align:top;overflow-wrap:anywhere}
#vg-tooltip-element table tr td.key{color:var(--soft)!important;white-space:nowrap}
#vg-tooltip-element td.value{max-width:none!important;max-height:none!important}
@media (max-width:640px){#vg-tooltip-element.vg-tooltip.visible{left:8px!important;right:8px!important;top:auto!important;
bottom:8px!important;max-width:none!important}}
@media print{#vg-tooltip-element{display:none!important}.figure svg{max-width:100%;height:auto}}
"""

SCRIPT = """
(async () => {
  'use strict';
  const options = {renderer: 'svg', actions: false, ast: true, tooltip: {theme: 'custom'}};
  const stretching = [];
  let drawn = 0;
  addEventListener('beforeprint', () => {
    document.querySelectorAll('details').forEach((hidden) => { hidden.open = true; });
    for (const [place, view] of stretching) view.width(Number(getComputedStyle(place).getPropertyValue('--printed'))).run();
  });
  addEventListener('afterprint', () => dispatchEvent(new Event('resize')));
  for (const block of document.querySelectorAll('script[data-figure]')) {
    const place = document.getElementById(block.dataset.figure);
    try {
      const figure = JSON.parse(block.textContent);
      const {view} = await vegaEmbed(place, figure, options);
      if (figure.width === 'container') stretching.push([place, view]);
      drawn += 1;
      await new Promise((resume) => setTimeout(resume));
    } catch (fault) {
      place.textContent = 'this figure could not be drawn';
      console.error(fault);
    }
  }
  const folds = [...document.querySelectorAll('details.fold')];
  const unfold = () => {
    const fold = document.getElementById(location.hash.slice(1))?.querySelector(':scope > details.fold');
    if (fold) fold.open = true;
  };
  if (matchMedia('screen and (max-width: 640px)').matches) {
    for (const fold of folds) fold.open = false;
    addEventListener('hashchange', unfold);
    document.querySelectorAll('nav a').forEach((link) => link.addEventListener('click', () => setTimeout(unfold)));
    unfold();
  }
  for (const fold of folds) fold.addEventListener('toggle', () => { if (fold.open) dispatchEvent(new Event('resize')); });
  document.documentElement.dataset.drawn = String(drawn);
})();
"""

_NAMES = "window.vegaEmbed = vegaEmbed;"
"""What the library's bundle gives the page."""


@cache
def library() -> str:
    """The script of the plotting library."""
    altair()
    import vl_convert

    return str(vl_convert.javascript_bundle(_NAMES)).replace("</script", "<\\/script").replace("<!--", "<\\!--")


def json_text(value: Any) -> str:
    """JSON that can stand in a page: nothing in it can end its block or begin another.

    >>> json_text("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def data_block(identity: str, chart: Chart) -> str:
    """The block that holds a chart for the element `identity`, a name that the program chose."""
    return f'<script type="application/json" data-figure="{escape(identity)}">{json_text(chart.to_dict(validate=False))}</script>'


def policy(*scripts: str) -> str:
    """The content policy of a page that runs these scripts and nothing else, and reaches nothing outside itself."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(chart: Chart, title: str) -> str:
    """A page with one figure."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy(library(), SCRIPT)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{style_sheet()}{STYLE}</style></head>
<body><div class="figure" id="figure"></div>
{data_block("figure", chart)}
<script>{library()}</script>
<script>{SCRIPT}</script>
</body></html>
"""
