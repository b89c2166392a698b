/* Compiled by the tests: each function touches members in a way of its own. */
#include <stddef.h>

struct link { struct link *next, *prev; };
typedef struct { int counter; } count_t;
struct inner { long a; int b; };
struct node {
	struct link link;
	struct inner inner;
	union { int number; struct { short low, high; }; };
	count_t uses;
	struct inner many[4];
	int (*call)(struct node *node, struct inner *inner);
	void *anything;
};
struct item { long key; struct link link; long value; };

struct node global;
long sink;

__attribute__((noinline)) void opaque(void *pointer) { __asm__ volatile("" : : "r"(pointer) : "memory"); }

long reads(struct node *node) { return node->inner.a; }
void writes(struct node *node, long value) { node->inner.a = value; }
void both(struct node *node) { node->inner.b += 3; }
int overlapping(struct node *node) { return node->number; }
void counted(struct node *node) { node->uses.counter++; }
long element(struct node *node, unsigned long nth) { return node->many[nth].a; }
long through(struct node *node)
{
	struct item *item = (struct item *)node->link.next;
	opaque(item);
	return item->key;
}
long container(struct link *link)
{
	struct item *item = (struct item *)((char *)link - offsetof(struct item, link));
	return item->value;
}
long of_global(void) { return global.inner.a; }
int indirect(struct node *node) { return node->call(node, &node->inner) + node->inner.b; }
long spilled(struct node *node)
{
	opaque(0);
	long sum = node->inner.a;
	opaque(0);
	__asm__ volatile("" : : : "rbx", "rbp", "r12", "r13", "r14", "r15");
	return sum + node->inner.b;
}
long listed(struct node *node)
{
	long sum = 0;
	for (struct link *at = node->link.next; at != &node->link; at = at->next)
		sum += container(at);
	return sum;
}
long chosen(struct node *first, struct node *second, int which)
{
	struct node *node = which ? first : second;
	opaque(node);
	return node->inner.a;
}
long local(void)
{
	struct node node = { .inner.a = 5 };
	opaque(&node);
	return node.inner.a;
}
long untyped(void **pointer) { return *(long *)((char *)*pointer + 8); }

/* Objects behind untyped members, at offsets that variables tell: one function says what they are. */
struct sizes { int first, second; };
struct sizes sizes_of_locks, sizes_of_keys;
struct owner { long id; void *parts; };
struct lock { long level; int bolts; };
struct key { int teeth; short cuts; };
void of_lock(struct lock *lock) { opaque(lock); }
void of_key(struct key *key) { opaque(key); }
void tells_of_lock(struct owner *owner) { of_lock((struct lock *)((char *)owner->parts + sizes_of_locks.second)); }
void tells_of_key(struct owner *owner) { of_key((struct key *)((char *)owner->parts + sizes_of_keys.second)); }
int sum_with_lock(struct owner *owner)
{
	return ((struct lock *)((char *)owner->parts + sizes_of_locks.second))->bolts;
}
int sum_with_key(struct owner *owner)
{
	return ((struct key *)((char *)owner->parts + sizes_of_keys.second))->cuts;
}

/* What begins with something, and what that is passed as, too. */
struct request { long kind, mark; };
struct long_request { struct request request; long more; };
struct socket { long kind, mark, state, rest[8]; };
void as_long_request(struct long_request *request) { opaque(request); }
void as_socket(struct socket *socket) { opaque(socket); }
long behind(struct request *request) { return ((struct long_request *)request)->more; }
long behind_what_is_cast(struct request *request)
{
	as_socket((struct socket *)request);
	return ((struct long_request *)request)->more;
}

/* The kernel's names, for what is laid over members. */
struct sk_buff { long len; char cb[48]; };
struct sk_buff_fclones { long count; struct sk_buff skb2; };
struct skb_gso_cb { int mac_offset; };
void as_skb_gso_cb(struct skb_gso_cb *cb) { opaque(cb); }
int skb_segment(struct sk_buff *skb) { return ((struct skb_gso_cb *)(skb->cb + 32))->mac_offset; }
int skb_segment_two(struct sk_buff_fclones *both)
{
	return ((struct skb_gso_cb *)(both->skb2.cb + 32))->mac_offset;
}

static inline __attribute__((always_inline)) long inlined(struct inner *which, long more)
{
	long first = which->a + more;
	opaque(which);
	return first + which->b;
}
long outer(struct node *node, struct inner *which)
{
	long before = which->a;
	opaque(which);
	return before + inlined(&node->inner, 7) + which->b;
}
long switched(int way, struct node *on)
{
	struct item item = { .key = way };
	opaque(&item);
	switch (way) {
	case 0: return item.value;
	case 1: opaque(on); return item.value + on->inner.a;
	case 2: return item.key - item.value;
	case 3: opaque(0); return item.value * item.key;
	case 4: return item.value / on->inner.b;
	case 5: return on->number * item.value;
	default: return 0;
	}
}

int main(void) { return (int)of_global(); }
