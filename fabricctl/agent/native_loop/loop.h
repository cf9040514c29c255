/* The native engine: connected queue pairs over libibverbs and timed loops over them.
 *
 * native_library.py loads it with ctypes; the structures below are written down there a second time.
 *
 * The library asks the dynamic linker for no symbol at all: what it calls of libibverbs and of the C library comes
 * in a table that Python fills. An undefined symbol without a version would be bound to the oldest one that
 * libibverbs has, IBVERBS_1.0, whose structures are others than those of today's header.
 */
#ifndef FABRICCTL_LOOP_H
#define FABRICCTL_LOOP_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define VERSION 1
#define TURNS 256 /* of a busy loop between two looks at the clock */
#define PUBLIC __attribute__((visibility("default")))

/* What a function returns: 0, the status of a completion (enum ibv_wc_status, above 0), or one of these. */
enum {
    TIME_IS_UP = -1,
    CALLED_OFF = -2,
    SYSTEM = -1000, /* minus errno */
};

struct table {
    struct ibv_device **(*get_device_list)(int *count);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *device);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attributes);
    int (*query_port)(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attributes);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *start, size_t length, int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int size, void *, struct ibv_comp_channel *, int);
    int (*destroy_cq)(struct ibv_cq *cq);
    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask);
    int (*destroy_qp)(struct ibv_qp *qp);
    void *(*calloc)(size_t count, size_t size);
    void (*free)(void *memory);
    int (*clock_gettime)(clockid_t clock, struct timespec *now);
    int *(*errno_place)(void);
};

struct nic {
    const struct table *verbs;
    struct ibv_context *context;
    struct ibv_pd *pd;
    uint64_t clock_khz; /* of the stamps on completions; 0 without */
    uint64_t clock_mask;
    uint32_t port;
};

/* How the port is now. */
struct port_state {
    uint32_t state; /* enum ibv_port_state */
    uint32_t lid;
    uint32_t mtu;   /* enum ibv_mtu */
    uint32_t reads; /* most RDMA READs at once on a queue pair, as asking and as answering end */
    uint64_t clock_khz;
    uint64_t clock_mask;
};

/* What an endpoint shall be. */
struct wish {
    uint8_t *memory; /* the buffer, then the control page */
    uint64_t memory_bytes;
    uint64_t buffer_bytes;
    const uint8_t *unreliable; /* one byte a queue pair: not 0 for UC */
    uint32_t pairs;
    uint32_t depth;
    uint32_t receives;
    uint32_t inline_bytes;
};

struct pair {
    struct ibv_qp *qp;
    uint32_t under_way;
};

struct link {
    struct nic *nic;
    struct ibv_mr *mr;
    struct ibv_cq *sends;
    struct ibv_cq_ex *stamped; /* the same queue, where the NIC stamps completions */
    struct ibv_cq *receives;
    uint8_t *memory;
    uint64_t far_buffer;
    uint64_t far_control;
    uint32_t far_key;
    uint32_t inline_bytes;
    uint32_t depth;
    uint32_t pairs;
    struct pair pair[];
};

/* How one queue pair is connected. */
struct route {
    uint8_t gid[16];
    uint32_t is_global;
    uint32_t gid_index;
    uint32_t lid;
    uint32_t hop_limit;
    uint32_t traffic_class;
    uint32_t flow_label;
    uint32_t mtu;
    uint32_t far_number;
    uint32_t far_psn;
    uint32_t near_psn;
    uint32_t reads;     /* that this end may have under way */
    uint32_t far_reads; /* that this end must answer at once */
    uint32_t timeout;
    uint32_t retries;
    uint32_t rnr_retries;
    uint32_t rnr_timer;
};

/* When a loop must end. */
struct limit {
    uint64_t until_ns; /* CLOCK_MONOTONIC */
    const volatile int *called_off;
};

/* A stream of messages, and what it brought. */
struct course {
    const uint32_t *lengths;
    const uint32_t *pairs;
    uint64_t count;  /* messages in all; 0 if the time ends it */
    uint64_t run_ns; /* 0 if the count ends it */
    uint64_t offset;
    uint32_t lengths_count;
    uint32_t pairs_count;
    uint32_t op;
    uint32_t unused;
    uint64_t bytes;
    uint64_t messages;
    uint64_t nanoseconds;
};

/* Numbered slots. */
struct slots {
    uint64_t first;
    uint64_t step;
    uint64_t count;
    uint64_t paths;
    uint64_t mark;
};

/* One request: a message here and its place there. */
struct request {
    uint32_t op; /* enum ibv_wr_opcode */
    uint32_t pair;
    uint32_t length;
    uint32_t flags;    /* enum ibv_send_flags */
    uint64_t near;     /* address */
    uint64_t far;      /* address */
    uint64_t identity; /* of its completion */
};

struct done {
    uint64_t identity;
    uint64_t stamp;
    int status;
};

uint64_t now_ns(const struct table *verbs);
int over(const struct link *link, const struct limit *limit);
int post(struct link *link, const struct request *request);
int post_receive(struct link *link, uint32_t pair, uint32_t length);
int take(struct link *link, struct done *done);
int finish(struct link *link, const struct limit *limit, struct done *done);
int finish_receive(struct link *link, const struct limit *limit, uint32_t *pair);

#endif
