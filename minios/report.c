/* Lines that survive a cut: each begins with `~`, ends with `*`, a checksum and a newline, and stands alone. */
#include "measure.h"

enum { LINE_MOST = 400 };

static char line[LINE_MOST];
static u32 length;

static void add(char letter)
{
    if (length < LINE_MOST - 16)
        line[length++] = letter;
}

void line_begin(char type)
{
    length = 0;
    add('~');
    add(type);
}

static void hexadecimal(u64 number, int digits)
{
    while (digits < 16 && number >> (4 * digits))
        digits++;
    while (digits--)
        add("0123456789abcdef"[number >> (4 * digits) & 15]);
}

void line_number(u64 number)
{
    add(' ');
    hexadecimal(number, 1);
}

void line_word(const char *word)
{
    add(' ');
    while (*word)
        add(*word++);
}

/* CRC-32 as in Ethernet and zip. */
static u32 checksum(const char *text, u32 size)
{
    u32 sum = ~0u;
    for (u32 i = 0; i < size; i++) {
        sum ^= (u8)text[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
    }
    return ~sum;
}

void line_end(void)
{
    u32 sum = checksum(line + 1, length - 1);
    line[length++] = '*';
    for (int shift = 28; shift >= 0; shift -= 4)
        line[length++] = "0123456789abcdef"[sum >> shift & 15];
    line[length++] = '\n';
    put(line, length);
}
