"""What a case claims: judged, shown, and left in result.json for checks from outside."""
import json
import sys


class Claims:
    """Of one run of a case. Each has a name of its own; what is measured is a number, never NaN."""

    def __init__(self, case, out):
        self.case, self.out, self.claims = case, out, []

    def at_least(self, name, measured, target, unit, **more):
        """MORE goes beside it into result.json: `paper` is the paper's own figure and has a column, `note` is what is to be
        known of the measured one and stands at the end of the line."""
        self._add(name, measured, '≥', target, unit, measured >= target, more)

    def at_most(self, name, measured, target, unit, **more):
        self._add(name, measured, '≤', target, unit, measured <= target, more)

    def _add(self, name, measured, sign, target, unit, ok, more):
        assert name not in {one['name'] for one in self.claims}, name
        # Judged as it is measured, written so that it can be read.
        measured, target, *_ = (float(f'{value:.6g}') if isinstance(value, float) else value for value in (measured, target))
        self.claims.append({'name': name, 'measured': measured, 'target': target, 'unit': unit, 'ok': bool(ok),
                            'sign': sign, **more})

    def judge(self, **more):
        """Shows them, writes result.json with MORE in it, and exits 1 where one fails."""
        assert self.claims
        print('\n' + self.table())
        written = [{key: value for key, value in one.items() if key != 'sign'} for one in self.claims]
        (self.out / 'result.json').write_text(
            json.dumps({'case': self.case, 'claims': written, **more}, indent=2, ensure_ascii=False) + '\n')
        failed = [one['name'] for one in self.claims if not one['ok']]
        print(f'\n{len(self.claims) - len(failed)} of {len(self.claims)} claims hold')
        if failed:
            sys.exit(f'{self.case}: failed: ' + '; '.join(failed))

    def table(self):
        paper = any(one.get('paper') is not None for one in self.claims)
        width = max(len(one['name']) for one in self.claims)
        lines = [f'{"claim":{width}}{"measured":>12}{"target":>11}' + (f'{"paper":>10}' if paper else '')]
        for one in self.claims:
            line = f'{one["name"]:{width}}{one["measured"]:>12.6g}{one["sign"] + " " + format(one["target"], ".6g"):>11}'
            if paper:
                line += f'{"" if one.get("paper") is None else format(one["paper"], ".4g"):>10}'
            note = f' ({one["note"]})' if one.get('note') else ''
            lines.append(f'{line} {one["unit"]}{note}{"" if one["ok"] else "  FAILED"}'.rstrip())
        return '\n'.join(lines)
