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

int main(void) { return (int)of_global(); }
