"""What a case claims: judged, shown, and left in result.json for checks from outside."""
import json
import sys


def judge(case, out, claims, widths, **more):
    """CLAIMS are (name, measured, '≥' or '≤', target, unit); WIDTHS are those of the table's columns of names and of
    targets. Writes OUT/result.json with MORE in it, and exits 1 where a claim fails."""
    claims = [{'name': name, 'measured': measured, 'target': target, 'unit': unit,
               'ok': measured >= target if sign == '≥' else measured <= target, 'sign': sign}
              for name, measured, sign, target, unit in claims]
    names, targets = widths
    print(f'\n{"claim":{names}}{"measured":>10}{"target":>{targets}}')
    for one in claims:
        target = f'{one.pop("sign")} {one["target"]}'
        print(f'{one["name"]:{names}}{one["measured"]:>10.4g}{target:>{targets}} {one["unit"]}'
              f'{"" if one["ok"] else "  FAILED"}')
    (out / 'result.json').write_text(json.dumps({'case': case, 'claims': claims, **more}, indent=2) + '\n')
    failed = [one['name'] for one in claims if not one['ok']]
    if failed:
        sys.exit(f'{case}: failed: ' + '; '.join(failed))
