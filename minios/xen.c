#include "machine.h"
void xen_main(void *start) { (void)start; for (;;) ; }
