#!/usr/bin/env python3
"""Writes tests/xxh64.txt: XXH64 with seed 0, by the specification, checked against the published values."""

M = (1 << 64) - 1
P1, P2, P3 = 11400714785074694791, 14029467366897019727, 1609587929392839161
P4, P5 = 9650029242287828579, 2870177450012600261


def turn(x, by):
    return (x << by | x >> (64 - by)) & M


def step(lane, word):
    return turn((lane + word * P2) & M, 31) * P1 & M


def xxh64(data):
    at, size = 0, len(data)

    def read(count):
        nonlocal at
        value = int.from_bytes(data[at : at + count], "little")
        at += count
        return value

    if size >= 32:
        lanes = [(P1 + P2) & M, P2, 0, -P1 & M]
        while size - at >= 32:
            lanes = [step(lane, read(8)) for lane in lanes]
        total = sum(turn(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & M
        for lane in lanes:
            total = ((total ^ step(0, lane)) * P1 + P4) & M
    else:
        total = P5
    total = (total + size) & M
    while size - at >= 8:
        total = (turn(total ^ step(0, read(8)), 27) * P1 + P4) & M
    while size - at >= 4:
        total = (turn(total ^ read(4) * P1 & M, 23) * P2 + P3) & M
    while size - at:
        total = turn(total ^ read(1) * P5 & M, 11) * P1 & M
    total = (total ^ total >> 33) * P2 & M
    total = (total ^ total >> 29) * P3 & M
    return total ^ total >> 32


PUBLISHED = {
    "": 0xEF46DB3751D8E999,
    "a": 0xD24EC4F1A98C6E5B,
    "abc": 0x44BC2CF5AD770999,
    "Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
}

for text, value in PUBLISHED.items():
    assert xxh64(text.encode()) == value, text
texts = list(PUBLISHED)
alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
texts += [(alphabet * 3)[:size] for size in range(1, 70)]
texts += ["192.0.2.7", "2001:db8::1", "/shop/item?id=4711", "app1", "10.0.0.11:8000", "Grüße"]
print("# hash (hex), a space, the text; written by tests/xxh64.py")
for text in dict.fromkeys(texts):
    print(f"{xxh64(text.encode()):016x} {text}")
