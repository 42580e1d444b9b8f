#include "exact.h"

#include <math.h>
#include <string.h>

/* Adds (or subtracts) a word at a place and carries on as far as needed. */
static void add_word(ck_exact *sum, size_t at, uint64_t word) {
    uint64_t carry = word;
    for (; carry != 0 && at < CK_EXACT_WORDS; at++) {
        sum->word[at] += carry;
        carry = sum->word[at] < carry;
    }
}

static void subtract_word(ck_exact *sum, size_t at, uint64_t word) {
    uint64_t borrow = word;
    for (; borrow != 0 && at < CK_EXACT_WORDS; at++) {
        const uint64_t before = sum->word[at];
        sum->word[at] = before - borrow;
        borrow = before < borrow;
    }
}

void ck_exact_add(ck_exact *sum, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const unsigned stored = (unsigned) (bits >> 52) & 0x7ff;
    const uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    /* In units of 2^-1074: a stored exponent of 0 and of 1 both mean no shift. */
    const uint64_t magnitude = stored == 0 ? fraction : fraction | UINT64_C(1) << 52;
    const unsigned shift = stored == 0 ? 0 : stored - 1;
    const size_t at = shift / 64;
    const unsigned within = shift % 64;
    const uint64_t low = magnitude << within;
    const uint64_t high = within == 0 ? 0 : magnitude >> (64 - within);
    if (bits >> 63) {
        subtract_word(sum, at, low);
        subtract_word(sum, at + 1, high);
    } else {
        add_word(sum, at, low);
        add_word(sum, at + 1, high);
    }
}

void ck_exact_merge(ck_exact *into, const ck_exact *from) {
    uint64_t carry = 0;
    for (size_t i = 0; i < CK_EXACT_WORDS; i++) {
        const uint64_t with_carry = from->word[i] + carry;
        const uint64_t overflowed = with_carry < carry;
        into->word[i] += with_carry;
        carry = overflowed | (into->word[i] < with_carry);
    }
}

static unsigned bit_length(uint64_t word) {
    unsigned length = 0;
    for (; word != 0; word >>= 1) {
        length++;
    }
    return length;
}

double ck_exact_value(const ck_exact *sum) {
    uint64_t magnitude[CK_EXACT_WORDS];
    const int negative = (int) (sum->word[CK_EXACT_WORDS - 1] >> 63);
    uint64_t carry = 1;
    for (size_t i = 0; i < CK_EXACT_WORDS; i++) {
        magnitude[i] = negative ? ~sum->word[i] + carry : sum->word[i];
        carry &= magnitude[i] == 0;
    }
    size_t top = CK_EXACT_WORDS;
    while (top > 0 && magnitude[top - 1] == 0) {
        top--;
    }
    if (top == 0) {
        return 0.0;
    }
    const unsigned length = (unsigned) (top - 1) * 64 + bit_length(magnitude[top - 1]);
    if (length <= 53) {
        const double value = ldexp((double) magnitude[0], -1074);
        return negative ? -value : value;
    }
    /* The highest 53 bits, and what lies below them. */
    const unsigned drop = length - 53;
    const size_t at = drop / 64;
    const unsigned within = drop % 64;
    uint64_t kept = magnitude[at] >> within;
    if (within != 0 && at + 1 < top) {
        kept |= magnitude[at + 1] << (64 - within);
    }
    kept &= (UINT64_C(1) << 53) - 1;
    const unsigned half = drop - 1;
    const int half_set = (int) (magnitude[half / 64] >> (half % 64)) & 1;
    uint64_t below = magnitude[half / 64] & ((UINT64_C(1) << (half % 64)) - 1);
    for (size_t i = 0; i < half / 64; i++) {
        below |= magnitude[i];
    }
    if (half_set && (below != 0 || (kept & 1) != 0)) {
        kept++;
    }
    const double value = ldexp((double) kept, (int) drop - 1074);
    return negative ? -value : value;
}
