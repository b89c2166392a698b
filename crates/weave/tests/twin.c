/* Another static function of a name that one in instruction.c has. */
struct device;

struct packet {
	struct packet *next;
	struct device *dev;
	unsigned int len;
	unsigned int mark;
	unsigned char cb[48];
};

static __attribute__((noinline, noclone)) void twin(struct packet *packet)
{
	packet->mark = 2;
	__asm__ volatile("");
}

void twin_there(struct packet *packet)
{
	twin(packet);
}
