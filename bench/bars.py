"""Bars of medians, with a line from the least to the greatest, as SVG: for the figures of the scripts below this directory."""
from html import escape


def bars(path, title, unit, rows):
    """rows: label, median, minimum, maximum in `unit`."""
    top = max(high for *_, high in rows) or 1
    longest = max(len(name) for name, *_ in rows)
    height, left, width = 22 * len(rows) + 50, max(150, 7 * longest + 16), 420
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 90}" height="{height}" '
           'font-family="sans-serif" font-size="12">', f'<text x="10" y="20">{escape(title)}: {escape(unit)}</text>']
    for place, (name, middle, low, high) in enumerate(rows):
        y = 35 + 22 * place
        scale = width / top
        out.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{escape(name)}</text>')
        out.append(f'<rect x="{left}" y="{y}" width="{middle * scale:.1f}" height="16" fill="#4a7"/>')
        out.append(f'<line x1="{left + low * scale:.1f}" x2="{left + high * scale:.1f}" '
                   f'y1="{y + 8}" y2="{y + 8}" stroke="#000"/>')
        out.append(f'<text x="{left + high * scale + 6:.1f}" y="{y + 12}">{middle:.{0 if middle >= 1000 else 2}f}</text>')
    path.write_text("\n".join([*out, "</svg>", ""]))
