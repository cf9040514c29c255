/* A stand-in for libibverbs without RDMA: queue pairs of one process write into each other's memory.
 *
 * Set by the environment when a device is opened or a thing is made: FAKE_STATE, FAKE_MTU (enum values),
 * FAKE_MEMLOCK (largest memory, bytes), FAKE_INLINE (longest message within a request), FAKE_READS (READs at once),
 * FAKE_LOSS and FAKE_SEED (unreliable queue pairs), FAKE_STATUS (12@5: the fifth request of each queue pair fails),
 * FAKE_DELAY (looks at a queue before a completion shows), FAKE_CLOCK (kHz: completions carry stamps).
 */
#include <infiniband/verbs.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 256
#define RING 8192

struct completion {
    uint64_t wr_id, stamp;
    int status;
    struct queue_pair *pair; /* whose requests up to `retires` are done; NULL for a receive */
    uint64_t retires;
};

struct queue {
    struct ibv_cq_ex base;
    struct completion ring[RING];
    uint64_t head, tail, room;
    long delay, looks;
};

struct receive {
    uint64_t wr_id, address;
    uint32_t length;
};

struct waiting {
    struct queue_pair *from;
    uint64_t wr_id, address;
    uint32_t length;
    int signaled;
    uint64_t number;
};

struct queue_pair {
    struct ibv_qp base;
    struct ibv_qp_cap cap;
    uint32_t peer;
    int access;
    uint64_t posted, retired, receives, used, waits, waited;
    struct receive receive[RING];
    struct waiting waiting[RING];
    unsigned chance;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_mr *regions[MOST];
static struct queue_pair *pairs[MOST];
static struct ibv_device devices[] = {{.name = "fake0"}, {.name = "broken0"}};
int fake_open; /* things that are not closed */

static double number(const char *name, double fallback)
{
    const char *text = getenv(name);

    return text && *text ? atof(text) : fallback;
}

static uint64_t now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000ull + at.tv_nsec;
}

static int put(void *table[], void *thing)
{
    for (int i = 1; i < MOST; i++)
        if (!table[i]) {
            table[i] = thing;
            fake_open++;
            return i;
        }
    abort();
}

static void complete(struct queue *queue, struct completion done)
{
    if (queue->head - queue->tail >= queue->room)
        abort(); /* the completion queue overflows */
    done.stamp = now();
    queue->ring[queue->head++ % RING] = done;
}

static struct completion *next(struct queue *queue)
{
    struct completion *done;

    if (queue->head == queue->tail || (queue->looks && queue->looks--))
        return NULL;
    queue->looks = queue->delay;
    done = &queue->ring[queue->tail++ % RING];
    if (done->pair)
        done->pair->retired = done->retires;
    return done;
}

static int poll(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    struct completion *done;
    int count = 0;

    pthread_mutex_lock(&lock);
    while (count < most && (done = next((struct queue *)cq))) {
        memset(&wc[count], 0, sizeof(*wc));
        wc[count].wr_id = done->wr_id;
        wc[count++].status = done->status;
    }
    pthread_mutex_unlock(&lock);
    return count;
}

static struct completion current;

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attributes)
{
    struct completion *done;

    pthread_mutex_lock(&lock);
    done = attributes->comp_mask ? NULL : next((struct queue *)cq);
    if (!done) {
        pthread_mutex_unlock(&lock);
        return ENOENT;
    }
    current = *done;
    cq->wr_id = done->wr_id;
    cq->status = done->status;
    return 0; /* locked until the end */
}

static void end_poll(struct ibv_cq_ex *cq)
{
    (void)cq;
    pthread_mutex_unlock(&lock);
}

static uint64_t read_stamp(struct ibv_cq_ex *cq)
{
    (void)cq;
    return current.stamp & 0xffffffffff;
}

/* The region that holds all of it; NULL if there is none. */
static int holds(uint32_t key, uint64_t address, uint64_t length)
{
    struct ibv_mr *mr = key < MOST ? regions[key] : NULL;

    return mr && address >= (uintptr_t)mr->addr && address + length <= (uintptr_t)mr->addr + mr->length;
}

static void reply(struct queue_pair *from, uint64_t wr_id, uint64_t number, int signaled, int status)
{
    if (signaled || status)
        complete((struct queue *)from->base.send_cq, (struct completion){wr_id, 0, status, from, number});
}

static void deliver(struct queue_pair *to)
{
    while (to->waited < to->waits && to->used < to->receives) {
        struct waiting *message = &to->waiting[to->waited++ % RING];
        struct receive *receive = &to->receive[to->used++ % RING];
        int fits = message->length <= receive->length;
        struct completion done = {receive->wr_id, 0, fits ? 0 : IBV_WC_LOC_LEN_ERR, NULL, 0};

        if (fits)
            memcpy((void *)(uintptr_t)receive->address, (void *)(uintptr_t)message->address, message->length);
        complete((struct queue *)to->base.recv_cq, done);
        reply(message->from, message->wr_id, message->number, message->signaled,
              fits ? 0 : IBV_WC_REM_INV_REQ_ERR);
    }
}

static int run(struct queue_pair *pair, struct ibv_send_wr *wr, int *held)
{
    struct queue_pair *peer = pair->peer < MOST ? pairs[pair->peer] : NULL;
    int wanted = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, unreliable = pair->base.qp_type == IBV_QPT_UC;
    struct ibv_sge *near = wr->sg_list;
    void *here = (void *)(uintptr_t)near->addr, *there = (void *)(uintptr_t)wr->wr.rdma.remote_addr;

    if (unreliable && rand_r(&pair->chance) < number("FAKE_LOSS", 0) * RAND_MAX)
        return 0;
    if (!peer)
        return unreliable ? 0 : IBV_WC_RETRY_EXC_ERR;
    if (!holds(near->lkey, near->addr, near->length))
        return IBV_WC_LOC_PROT_ERR;
    if (wr->opcode == IBV_WR_SEND) {
        *held = 1;
        peer->waiting[peer->waits++ % RING] = (struct waiting){
            pair, wr->wr_id, near->addr, near->length, !!(wr->send_flags & IBV_SEND_SIGNALED), pair->posted};
        deliver(peer);
        return 0;
    }
    if ((peer->access & wanted) != wanted || !holds(wr->wr.rdma.rkey, (uintptr_t)there, near->length))
        return IBV_WC_REM_ACCESS_ERR;
    if (wr->opcode == IBV_WR_RDMA_READ) {
        memcpy(here, there, near->length);
        return 0;
    }
    memcpy(there, here, near->length - 1); /* the last byte is written last, for who waits for it */
    __atomic_store_n((uint8_t *)there + near->length - 1, ((uint8_t *)here)[near->length - 1], __ATOMIC_RELEASE);
    return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct queue_pair *pair = (struct queue_pair *)qp;
    const char *failing = getenv("FAKE_STATUS"), *turn = failing ? strchr(failing, '@') : NULL;
    int status, held = 0, rc = 0;

    pthread_mutex_lock(&lock);
    *bad = wr;
    if (qp->state != IBV_QPS_RTS || wr->num_sge != 1 || wr->next ||
        (wr->opcode == IBV_WR_RDMA_READ && qp->qp_type != IBV_QPT_RC) ||
        ((wr->send_flags & IBV_SEND_INLINE) && wr->sg_list->length > pair->cap.max_inline_data))
        rc = EINVAL;
    else if (pair->posted - pair->retired >= pair->cap.max_send_wr)
        rc = ENOMEM;
    if (!rc) {
        pair->posted++;
        status = turn && pair->posted == strtoull(turn + 1, NULL, 10) ? atoi(failing) : run(pair, wr, &held);
        if (!held)
            reply(pair, wr->wr_id, pair->posted, !!(wr->send_flags & IBV_SEND_SIGNALED), status);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct queue_pair *pair = (struct queue_pair *)qp;
    int rc = 0;

    pthread_mutex_lock(&lock);
    *bad = wr;
    if (!holds(wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length))
        rc = EINVAL;
    else if (qp->state == IBV_QPS_RESET || pair->receives - pair->used >= pair->cap.max_recv_wr)
        rc = ENOMEM;
    else {
        pair->receive[pair->receives++ % RING] =
            (struct receive){wr->wr_id, wr->sg_list->addr, wr->sg_list->length};
        deliver(pair);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attributes, size_t size)
{
    (void)context;
    memset(attributes, 0, size);
    attributes->state = number("FAKE_STATE", IBV_PORT_ACTIVE);
    attributes->active_mtu = number("FAKE_MTU", IBV_MTU_4096);
    attributes->lid = 7;
    return port == 1 ? 0 : EINVAL;
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *attributes, size_t size)
{
    (void)context, (void)input;
    memset(attributes, 0, size);
    attributes->hca_core_clock = number("FAKE_CLOCK", 0);
    attributes->completion_timestamp_mask = attributes->hca_core_clock ? 0xffffffffff : 0;
    return 0;
}

static struct queue *make_queue(struct ibv_context *context, uint64_t size)
{
    struct queue *queue = calloc(1, sizeof(*queue));

    queue->base.context = context;
    queue->room = size;
    queue->delay = queue->looks = number("FAKE_DELAY", 0);
    queue->base.start_poll = start_poll;
    queue->base.end_poll = end_poll;
    queue->base.read_completion_ts = read_stamp;
    fake_open++;
    return queue;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attributes)
{
    return &make_queue(context, attributes->cqe)->base;
}

struct ibv_device **ibv_get_device_list(int *count)
{
    struct ibv_device **list;

    if (getenv("FAKE_NO_KERNEL")) {
        errno = ENOSYS;
        return NULL;
    }
    list = calloc(3, sizeof(*list));
    list[0] = &devices[0];
    list[1] = &devices[1];
    if (count)
        *count = 2;
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct verbs_context *made;

    if (device == &devices[1]) {
        errno = EIO;
        return NULL;
    }
    made = calloc(1, sizeof(*made));
    made->sz = sizeof(*made);
    made->context.device = device;
    made->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    made->context.ops.poll_cq = poll;
    made->context.ops.post_send = post_send;
    made->context.ops.post_recv = post_recv;
    made->query_port = getenv("FAKE_OLD") ? NULL : query_port;
    made->query_device_ex = query_device_ex;
    made->create_cq_ex = create_cq_ex;
    fake_open++;
    return &made->context;
}

int ibv_close_device(struct ibv_context *context)
{
    fake_open--;
    free(verbs_get_ctx(context));
    return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
    (void)context;
    memset(attributes, 0, sizeof(*attributes));
    attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = number("FAKE_READS", 16);
    return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attributes)
{
    return query_port(context, port, (struct ibv_port_attr *)attributes, 48);
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = calloc(1, sizeof(*pd));

    pd->context = context;
    fake_open++;
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    fake_open--;
    free(pd);
    return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *start, size_t length, int access)
{
    struct ibv_mr *mr;

    (void)access;
    if (length > number("FAKE_MEMLOCK", 1e12)) {
        errno = ENOMEM;
        return NULL;
    }
    mr = calloc(1, sizeof(*mr));
    mr->pd = pd;
    mr->addr = start;
    mr->length = length;
    pthread_mutex_lock(&lock);
    mr->lkey = mr->rkey = put((void **)regions, mr);
    pthread_mutex_unlock(&lock);
    return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    pthread_mutex_lock(&lock);
    regions[mr->lkey] = NULL;
    fake_open--;
    pthread_mutex_unlock(&lock);
    free(mr);
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int size, void *private, struct ibv_comp_channel *channel,
                             int vector)
{
    (void)private, (void)channel, (void)vector;
    return ibv_cq_ex_to_cq(&make_queue(context, size)->base);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    fake_open--;
    free(cq);
    return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes)
{
    struct queue_pair *pair;

    if (attributes->cap.max_inline_data > number("FAKE_INLINE", 220)) {
        errno = EINVAL;
        return NULL;
    }
    pair = calloc(1, sizeof(*pair));
    pair->base.context = pd->context;
    pair->base.pd = pd;
    pair->base.send_cq = attributes->send_cq;
    pair->base.recv_cq = attributes->recv_cq;
    pair->base.qp_type = attributes->qp_type;
    pair->cap = attributes->cap;
    pair->chance = number("FAKE_SEED", 1);
    pthread_mutex_lock(&lock);
    pair->base.qp_num = put((void **)pairs, pair);
    pthread_mutex_unlock(&lock);
    return &pair->base;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask)
{
    struct queue_pair *pair = (struct queue_pair *)qp;
    int reliable = qp->qp_type == IBV_QPT_RC, wanted = IBV_QP_STATE;

    if (attributes->qp_state == IBV_QPS_INIT) {
        wanted |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        pair->access = attributes->qp_access_flags;
    } else if (attributes->qp_state == IBV_QPS_RTR) {
        wanted |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        wanted |= reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0;
        pair->peer = attributes->dest_qp_num;
        if (attributes->ah_attr.grh.dgid.raw[14] == 0xde && attributes->ah_attr.grh.dgid.raw[15] == 0xad)
            return ETIMEDOUT;
    } else {
        wanted |= IBV_QP_SQ_PSN;
        wanted |= reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0;
    }
    if (mask != wanted)
        return EINVAL;
    qp->state = attributes->qp_state;
    return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    pthread_mutex_lock(&lock);
    pairs[qp->qp_num] = NULL;
    fake_open--;
    pthread_mutex_unlock(&lock);
    free(qp);
    return 0;
}
