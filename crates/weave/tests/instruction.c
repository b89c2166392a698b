/* Compiled twice: for the machine, to be looked into; and for BPF, whose object tells the types as a kernel
 * does. */
struct device {
	int ifindex;
	int mtu;
};

struct packet {
	struct packet *next;
	struct device *dev;
	unsigned int len;
	unsigned int mark;
	unsigned char cb[48];
};

struct queue {
	struct packet *head;
	unsigned int count;
	struct packet spare;
};

#define NOINLINE __attribute__((noinline))

extern void note(unsigned int value);

/* One packet, by a parameter: three instructions, of which the first two are on no common way. */
NOINLINE unsigned int packet_weigh(struct packet *packet, int fast)
{
	if (fast) {
		packet->len = 5;
		note(1);
	} else {
		note(2);
		packet->len = 6;
		note(3);
	}
	note(4);
	return packet->len * 2;
}

/* The packet is no parameter. */
NOINLINE void queue_drain(struct queue *queue)
{
	struct packet *packet;

	while ((packet = queue->head)) {
		queue->head = packet->next;
		note(packet->len);
		packet->len = 0;
		queue->count--;
	}
}

/* The packet lies in something. */
NOINLINE void queue_reset(struct queue *queue)
{
	queue->spare.len = 7;
	note(queue->count);
}

NOINLINE int packet_index(struct packet *packet)
{
	return packet->dev->ifindex;
}

/* A request on a ring that two domains share, as Xen's network devices have it. */
struct xen_netif_tx_request {
	unsigned int gref;
	unsigned short offset;
	unsigned short flags;
	unsigned short id;
	unsigned short size;
};

struct first {
	int number;
	int more;
};

struct wrapper {
	struct first first;
	unsigned int last;
};

/* Two structures at one address. */
NOINLINE void wrapper_count(struct wrapper *wrapper)
{
	wrapper->first.number = 3;
	note(wrapper->last);
}

NOINLINE void request_send(struct packet *packet, struct xen_netif_tx_request *tx)
{
	tx->flags = 1;
	note(packet->mark);
	packet->mark = 0;
}

NOINLINE void request_receive(struct packet *packet, struct xen_netif_tx_request *tx)
{
	note(tx->flags);
	packet->mark = 0;
}

/* There is another of this name in twin.c. */
static NOINLINE void twin(struct packet *packet)
{
	packet->mark = 1;
	__asm__ volatile("");
}

void twin_here(struct packet *packet)
{
	twin(packet);
}

struct lamp {
	int lit;
	int shade;
};

/* Small enough to be put into those who call it. */
int lamp_is_lit(struct lamp *lamp)
{
	note(lamp->shade);
	return lamp->lit > 0;
}

int lamp_count(struct lamp *first, struct lamp *second)
{
	return lamp_is_lit(first) + lamp_is_lit(second);
}

int lamp_is_dark(struct lamp *lamp)
{
	return !lamp_is_lit(lamp);
}

#ifndef __bpf__
/* Named as a clone: with -fno-toplevel-reorder the compiler makes none. */
NOINLINE void lamp_dim(struct lamp *lamp) __asm__("lamp_dim.constprop.0");

void lamp_dim(struct lamp *lamp)
{
	note(lamp->shade);
	lamp->shade = 9;
}
#endif
