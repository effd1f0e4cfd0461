"""Inputs of many kinds for a language model, each out of a random generator; no sentence of examples/minilm."""

from __future__ import annotations

import re
from pydoc_data.topics import topics
from random import Random
from typing import Protocol

BYTES = 256
BATCH = 8
OTHER_LANGUAGES = """
Der Zug nach Hamburg hat heute leider zwanzig Minuten Verspätung.
Les enfants jouent dans le jardin pendant que la pluie s'arrête.
El mercado abre a las ocho y cierra cuando ya no queda nadie.
A chuva caiu a noite inteira e o rio subiu até a ponte.
Il treno parte dal binario tre alle sette e un quarto.
De fietser reed zonder licht door de smalle straat.
Pociąg odjeżdża z peronu trzeciego o godzinie siódmej.
Lumi suli vasta toukokuussa ja tie oli taas auki.
Поезд прибывает на третью платформу через пять минут.
Η θάλασσα ήταν ήρεμη και ο ουρανός καθαρός.
القطار يصل إلى المحطة بعد خمس دقائق.
הרכבת מגיעה לתחנה בעוד חמש דקות
रेलगाड़ी पाँच मिनट में स्टेशन पर पहुँचेगी।
รถไฟจะมาถึงสถานีในอีกห้านาที
列车将在五分钟后到达第三站台。
電車は五分後に三番線に到着します。
기차는 오 분 후에 삼 번 승강장에 도착합니다.
Tren beş dakika sonra üçüncü perona gelecek.
""".strip().splitlines()


class Reader(Protocol):
    """What an input depends on of the model that reads it."""

    vocabulary: range
    longest: int  # tokens of a row

    def ids(self, text: str) -> list[int]: ...


def read_text() -> str:
    """English with code in it, some hundred thousand characters: Python's own help texts."""
    return "\n".join(topics[name] for name in sorted(topics))


_sentences: list[str] = []


def sentence(random: Random) -> str:
    if not _sentences:
        prose = re.sub(r"[*`|]+", "", " ".join(read_text().split()))
        _sentences.extend(s for s in re.split(r"(?<=[.!?]) ", prose) if 20 < len(s) < 300)
    return random.choice(_sentences)


def short(random: Random) -> str:
    words = sentence(random).split()
    return " ".join(words[: random.randint(1, 3)])


def long(random: Random) -> str:
    return " ".join(sentence(random) for _ in range(random.randint(3, 6)))


def numbers(random: Random) -> str:
    forms = ["{:.0f}", "{:.3f}", "{:e}", "${:,.2f}", "{:.1f} %", "-{:.0f}"]
    return " ".join(random.choice(forms).format(10 ** random.uniform(-3, 9)) for _ in range(random.randint(1, 8)))


def other_languages(random: Random) -> str:
    return " ".join(random.choice(OTHER_LANGUAGES) for _ in range(random.randint(1, 2)))


def repeated(random: Random) -> str:
    word = random.choice([*sentence(random).split(), "the", ".", "0", "a a b"])
    return " ".join([word] * random.choice([2, 8, 40]))


def code(random: Random) -> str:
    text = read_text()
    start = random.randrange(len(text) - 200)
    return text[start : start + random.randint(30, 160)]


TEXTS = [short, sentence, long, numbers, other_languages, repeated, code]
# What follows them: tokens drawn from the whole vocabulary, and batches of texts with padding.
KINDS = [*(make.__name__ for make in TEXTS), "any tokens", "batch", "batch, padded left", "batch, padded much"]


def batch_of(random: Random, number: int, reader: Reader) -> tuple[list[list[int]], list[list[int]]]:
    """Token ids and attention mask of the input of that number. Kinds take turns."""
    kind = number % len(KINDS)
    if kind < len(TEXTS):
        rows = [reader.ids(TEXTS[kind](random))]
    elif KINDS[kind] == "any tokens":
        rows = [random.choices(reader.vocabulary, k=random.randint(2, 40))]
    else:
        rows = [reader.ids(random.choice(TEXTS)(random))[: random.randint(1, 16)] for _ in range(BATCH)]
    rows = [row[: reader.longest] for row in rows]
    width = max(len(row) for row in rows) + (12 if KINDS[kind] == "batch, padded much" else 0)
    left = KINDS[kind] == "batch, padded left"
    ids, mask = [], []
    for row in rows:
        none = [0] * (width - len(row))
        ids.append(none + row if left else row + none)
        mask.append(none + [1] * len(row) if left else [1] * len(row) + none)
    return ids, mask
