"""Sign an export, prepared data or a run, so that others can tell who made it. Needs: pip install cryptography

recnas sign --new-key team.key              # once: team.key stays with you, team.key.pub goes to everybody
recnas sign served --key team.key
recnas verify served --key team.key.pub     # refuses what others made, or changed
"""

from __future__ import annotations

import argparse

from recnas.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="DIR", nargs="?", help="a folder that a recnas command wrote with --out")
    parser.add_argument("--key", metavar="FILE", help="a private key")
    parser.add_argument("--new-key", metavar="FILE", help="make a new pair of keys: FILE and FILE.pub")


def run(args: argparse.Namespace) -> int:
    from recnas.trust.sign import new_keys, sign

    if args.new_key:
        private, public = new_keys(args.new_key)
        print(f"wrote {private} (keep it to yourself) and {public}")
        return 0
    if not args.path or not args.key:
        raise ConfigError("a folder and --key are needed.", "recnas sign served --key team.key")
    print(f"wrote {sign(args.path, args.key)}")
    return 0
