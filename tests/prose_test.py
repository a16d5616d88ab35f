#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts phrases that readers have to read twice, by kind of text, and fails if a kind has more than 2 per 1000 words.

    prose_test.py            all tracked files
    prose_test.py FILE...    these files
    prose_test.py --show     also prints each phrase with its file and line

The variable MACHEPS_SHARED, or a folder `shared` next to the source tree, may provide a file english.md with 40 bad
examples. The script then also checks that the patterns find at least 30 of them. The count is a smoke detector: text
without hits may still be hard to read.
Exit code: 0 good, 1 too many phrases, 4 git is missing or this is not a clone.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 2.0  # phrases per 1000 words
EXAMPLES = 30  # minimum number of examples in english.md that the patterns must find

# Each pattern with advice on what to write instead.
PATTERNS = [(re.compile(pattern), advice) for pattern, advice in (
    (r"(?:(?<=[.:;] )|^)(?:What|Where|Whatever|Whose|Of|Behind|Beside|Besides)\s", "name the subject first"),
    (r"(?:(?<=[.:;] )|^)No \w+(?:, \w+)*(?: or \w+)? (?:changes|reaches|names)\b", "say what never happens, and to what"),
    (r"\b(?:is|are|was|were|be) no (?!longer|more\b|less\b)\w+", "is not a ..."),
    (r"\b(?:names no|no \w+ but|no (?:byte|bit|abort|directory|number) that)\b", "does not ..., only ..."),
    (r"\bstands?\b", "is"),
    (r"\b(?:[Bb]eside|[Bb]ehind)\b", "next to, in addition to, after"),
    (r"\b(?:told|tells?|(?:is|are|only) said)\b", "reports, distinguishes"),
    (r"\bbut for\b", "except"),
    (r", too\b", "also"),
    (r"\b(?:of )?what (?:is|a|an|the|it|they|was|were|comes|takes|cannot|fused)\b", "name the thing"),
    (r"\b(?:of (?:its|their|one's|a) own|of one's own)\b", "its own ..."),
    (r"\b(?:anew|gone on with|nevertheless|all the same|come out otherwise)\b", "again, continued, still"),
    (r"\b(?:one that|those that|some) (?:has|have) none\b", "without ..."),
    (r"\bat the (?:least|most)\b", "at least, at most"),
    (r"\b(?:as it (?:stands|is|was)|as without it|as with it)\b", "unchanged"),
    (r"\b[Tt]he same of\b", "write the sentence out"),
    (r"\b(?:is not the \w+'s|other ones are)\b", "name the noun again"),
)]


def texts(name, text):
    """Returns (kind, [(line number, line)]) for each kind of text in a file."""
    lines = list(enumerate(text.split("\n"), 1))
    if re.search(r"\.(cpp|hpp|inl|cu|cuh|h)$", name):
        comments = [(n, m[1]) for n, line in lines for m in re.finditer(r"//[/<!]*\s?(.*)", line) if "SPDX" not in m[1]]
        strings = [(n, m[1]) for n, line in lines for m in re.finditer(r'"((?:[^"\\]|\\.){24,})"', re.sub(r"//.*", "", line))
                   if " " in m[1]]
        return [("comments", comments), ("strings", strings)]
    if name.endswith(".py") or text.startswith("#!/usr/bin/env python"):
        return [("comments", [(n, m[1]) for n, line in lines for m in re.finditer(r"#\s?(.*)", line)])]
    if name.startswith("CHANGELOG"):
        return [("changelog", lines)]
    if name.endswith("README.md") and name != "README.md":
        return [("READMEs of folders", lines)]
    return [("docs", lines)] if name.endswith(".md") else []


def found_examples(path):
    """Returns the number of examples in english.md whose text after "before:" contains a phrase."""
    examples = re.split(r"^(?=\d+\. )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    before = ["\n".join(re.findall(r"before: \**(.*)$", example, re.MULTILINE)).replace("`", "") for example in examples]
    return sum(any(pattern.search(text) for pattern, _ in PATTERNS) for text in before if text)


def main():
    show = "--show" in sys.argv
    names = [name for name in sys.argv[1:] if name != "--show"]
    if not names:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
        if listed.returncode != 0:
            print("MACHEPS-SKIPPED: the check of prose needs git and a clone")
            return 4
        # This file and the inputs of fuzzers quote such phrases.
        names = [n for n in listed.stdout.split("\n") if n and n != "tests/prose_test.py" and "/corpus/" not in n]
    words, hits = {}, {}
    for name in names:
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        for kind, lines in texts(name, text):
            for number, line in lines:
                words[kind] = words.get(kind, 0) + len(line.split())
                for pattern, advice in PATTERNS:
                    for match in pattern.finditer(line):
                        hits[kind] = hits.get(kind, 0) + 1
                        if show:
                            print(f"{name}:{number}: '{match[0].strip()}': {advice}")
    bad = False
    for kind, count in sorted(words.items()):
        rate = 1000 * hits.get(kind, 0) / max(count, 1)
        bad |= rate > LIMIT
        print(f"{kind:18} {count:7} words  {hits.get(kind, 0):5} phrases  {rate:5.2f} per 1000, at most {LIMIT:g}")
    shared = Path(os.environ.get("MACHEPS_SHARED", ROOT.parent / "shared")) / "english.md"
    if shared.is_file() and len(sys.argv) == 1:
        found = found_examples(shared)
        print(f"{found} of the bad examples are found, at least {EXAMPLES}")
        bad |= found < EXAMPLES
    if bad:
        print("tests/prose_test.py --show lists the phrases")
    return 1 if bad else 0


sys.exit(main())
