/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Of which files pages come into the page cache of this kernel, go, are written to, or move; and which files are renamed, or
 * given another size or time. A program of its own, not part of the prelude. Each file is told once, with its path, until its
 * mark is taken away.
 * mm/filemap.c, mm/migrate.c, mm/page-writeback.c, fs/attr.c, fs/dcache.c, Linux 6.1 to 7.3.
 */
#include "types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* include/uapi/linux/bpf.h */
#define BPF_F_NO_PREALLOC 1
#define EEXIST 17

/* include/uapi/linux/stat.h */
#define S_IFMT 00170000
#define S_IFDIR 0040000
#define S_IFREG 0100000

/* Bytes of a name with its end (NAME_MAX), of the names of a path that are told, and how many names. */
#define NAME 256
#define PATH 1024
#define DEEP 40

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block {
	u32 s_dev;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct inode {
	u16 i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_generation;
	struct hlist_head i_dentry;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
};

/* Before Linux 7.2, and since. */
struct dentry___named {
	union {
		struct hlist_node d_alias;
	} d_u;
};

struct dentry___unnamed {
	union {
		struct hlist_node d_alias;
	};
};

struct address_space {
	struct inode *host;
};

struct folio {
	struct address_space *mapping;
};

#pragma clang attribute pop

struct file_key {
	u64 inode;
	u32 device; /* as the kernel has it: major << 20 | minor */
	u32 generation; /* another one where the number is given again */
};

/* What is told of a file: crates/agent/src/pages/changes.rs reads it. */
struct told {
	struct file_key file;
	/* Bytes of `names`. */
	u32 bytes;
	/* Whether nothing but that pages have gone is known. */
	u32 gone;
	/* Each with its 0 behind it, the file's own first, those of the folders above after it; none if they cannot be read. What
	 * is read at once ends within. */
	char names[PATH + NAME];
};

/* Where a path is put together: one at a time on each CPU. */
struct scratch {
	u32 busy;
	u32 unused;
	struct told told;
};

/* The file systems that are watched. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, u8);
} xw_watched SEC(".maps");

/* The files that are told, until the agent has looked. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 16);
	__type(key, struct file_key);
	__type(value, u8);
} xw_marked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 << 20);
} xw_told SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} xw_scratch SEC(".maps");

/* Files that there was no room to tell of. */
u64 xw_lost SEC(".bss.lost");

/* Folders that were renamed: all that is in them has other paths. */
u64 xw_moved SEC(".bss.moved");

static __always_inline bool is_kind(struct inode *inode, u32 kind)
{
	return (BPF_CORE_READ(inode, i_mode) & S_IFMT) == kind;
}

/* The names up to the file system's root. A path that is longer, or deeper, has none. What is renamed meanwhile gives a path
 * that is none: who opens it looks which file it is. */
static __always_inline u32 names(struct told *told, struct inode *inode)
{
	struct hlist_node *alias = BPF_CORE_READ(inode, i_dentry.first);
	struct dentry *dentry, *above;
	u32 bytes = 0;

	if (!alias)
		return 0;
	if (bpf_core_field_exists(struct dentry___named, d_u.d_alias))
		dentry = (void *)alias - bpf_core_field_offset(struct dentry___named, d_u.d_alias);
	else if (bpf_core_field_exists(struct dentry___unnamed, d_alias))
		dentry = (void *)alias - bpf_core_field_offset(struct dentry___unnamed, d_alias);
	else
		return 0;
	for (u32 nth = 0; nth < DEEP; nth++) {
		long read;

		above = BPF_CORE_READ(dentry, d_parent);
		if (above == dentry)
			return bytes;
		if (bytes > PATH)
			return 0;
		read = bpf_probe_read_kernel_str(told->names + bytes, NAME, BPF_CORE_READ(dentry, d_name.name));
		if (read <= 0 || read > NAME)
			return 0;
		bytes += read;
		dentry = above;
	}
	return 0;
}

static __always_inline void tell(struct inode *inode, bool gone)
{
	struct scratch *scratch;
	struct file_key key = {};
	u32 none = 0, bytes;
	u8 marked = 1;
	long made;

	if (!inode || !is_kind(inode, S_IFREG))
		return;
	key.inode = BPF_CORE_READ(inode, i_ino);
	key.device = BPF_CORE_READ(inode, i_sb, s_dev);
	key.generation = BPF_CORE_READ(inode, i_generation);
	if (!bpf_map_lookup_elem(&xw_watched, &key.device))
		return;
	if (bpf_map_lookup_elem(&xw_marked, &key))
		return;
	made = bpf_map_update_elem(&xw_marked, &key, &marked, BPF_NOEXIST);
	if (made == -EEXIST)
		return;
	scratch = bpf_map_lookup_elem(&xw_scratch, &none);
	if (made || !scratch)
		goto lost;
	/* An interrupt, or a thread that this one made way for, is at it already. */
	if (__sync_lock_test_and_set(&scratch->busy, 1))
		goto lost;
	scratch->told.file = key;
	scratch->told.gone = gone;
	bytes = names(&scratch->told, inode);
	scratch->told.bytes = bytes;
	if (bytes > PATH + NAME)
		bytes = 0;
	made = bpf_ringbuf_output(&xw_told, &scratch->told, __builtin_offsetof(struct told, names) + bytes,
				  BPF_RB_NO_WAKEUP);
	__sync_lock_test_and_set(&scratch->busy, 0);
	if (!made)
		return;
lost:
	__sync_fetch_and_add(&xw_lost, 1);
}

static __always_inline int tell_page(struct folio *folio, bool gone)
{
	u64 mapping = (u64)BPF_CORE_READ(folio, mapping);

	/* Memory that is no file's (PAGE_MAPPING_FLAGS of include/linux/page-flags.h). */
	if (mapping && !(mapping & 3))
		tell(BPF_CORE_READ((struct address_space *)mapping, host), gone);
	return 0;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int page_comes(u64 *ctx)
{
	return tell_page((void *)ctx[0], false);
}

SEC("tp_btf/mm_filemap_delete_from_page_cache")
int page_goes(u64 *ctx)
{
	return tell_page((void *)ctx[0], true);
}

SEC("tp_btf/writeback_dirty_folio")
int page_is_written(u64 *ctx)
{
	return tell_page((void *)ctx[0], false);
}

/* The page that it moves to comes first, and has the mapping already (mm/migrate.c, folio_migrate_mapping). */
SEC("fentry/folio_migrate_flags")
int page_moves(u64 *ctx)
{
	return tell_page((void *)ctx[0], false);
}

/* The dentry has its new name by then. */
SEC("fexit/d_move")
int file_is_renamed(u64 *ctx)
{
	struct inode *inode = BPF_CORE_READ((struct dentry *)ctx[0], d_inode);
	u32 device;

	if (!inode || !is_kind(inode, S_IFDIR)) {
		tell(inode, false);
		return 0;
	}
	device = BPF_CORE_READ(inode, i_sb, s_dev);
	if (bpf_map_lookup_elem(&xw_watched, &device))
		__sync_fetch_and_add(&xw_moved, 1);
	return 0;
}

/* Its first argument is another one on each kernel. */
SEC("fexit/notify_change")
int file_is_changed(u64 *ctx)
{
	tell(BPF_CORE_READ((struct dentry *)ctx[1], d_inode), false);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
