# Texts and their normal forms C by Python's unicodedata:
#   python3 normal_forms.py > normal_forms.json
# Every character that another text is the form of, alone and taken apart, and marks in random orders.
# SPDX-License-Identifier: Apache-2.0
import json
import random
import sys
import unicodedata


def main() -> None:
    points = [chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]
    changed = [text for text in points if unicodedata.normalize("NFC", text) != text]
    # Hangul is a formula: a few of its syllables are enough.
    apart = [unicodedata.normalize("NFD", text) for text in points if unicodedata.normalize("NFD", text) != text]
    apart = [text for n, text in enumerate(apart) if not "\u1100" <= text[0] <= "\u1112" or n % 97 == 0]
    draw = random.Random(15)
    marks = [text for text in points[:0x3100] if unicodedata.combining(text)]
    bases = [text for text in points[:0x3100] if unicodedata.category(text)[0] in "LZ"]
    mixed = []
    for _ in range(300):
        letters = [draw.choice(bases) + "".join(draw.choices(marks, k=draw.randrange(4))) for _ in range(3)]
        mixed.append("".join(letters))
    texts = changed + apart + mixed
    pairs = [[text, unicodedata.normalize("NFC", text)] for text in texts]
    print(
        json.dumps(
            {"unicode": unicodedata.unidata_version, "pairs": pairs},
            separators=(",", ":"),
        )
    )


if __name__ == "__main__":
    main()
