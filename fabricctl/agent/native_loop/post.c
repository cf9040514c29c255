/* One request, one completion. */
#include "loop.h"

uint64_t now_ns(const struct table *verbs)
{
    struct timespec now;

    verbs->clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
}

int over(const struct link *link, const struct limit *limit)
{
    if (*limit->called_off)
        return CALLED_OFF;
    return now_ns(link->nic->verbs) > limit->until_ns ? TIME_IS_UP : 0;
}

int post(struct link *link, const struct request *request)
{
    struct ibv_sge piece = {.addr = request->near, .length = request->length, .lkey = link->mr->lkey};
    struct ibv_send_wr wr, *bad;
    int rc;

    /* Field by field: the rest of this large structure belongs to other operations. */
    wr.wr_id = request->identity;
    wr.next = NULL;
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.opcode = request->op;
    wr.send_flags = request->flags;
    wr.imm_data = 0;
    wr.wr.rdma.remote_addr = request->far;
    wr.wr.rdma.rkey = link->far_key;
    rc = ibv_post_send(link->pair[request->pair].qp, &wr, &bad);
    return rc ? SYSTEM - (rc < 0 ? -rc : rc) : 0;
}

int post_receive(struct link *link, uint32_t pair, uint32_t length)
{
    struct ibv_sge piece = {.addr = (uintptr_t)link->memory, .length = length, .lkey = link->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = pair, .sg_list = &piece, .num_sge = 1}, *bad;
    int rc = ibv_post_recv(link->pair[pair].qp, &wr, &bad);

    return rc ? SYSTEM - (rc < 0 ? -rc : rc) : 0;
}

static int take_stamped(struct ibv_cq_ex *queue, struct done *done)
{
    struct ibv_poll_cq_attr options = {0};
    int rc = ibv_start_poll(queue, &options);

    if (rc == ENOENT)
        return 0;
    if (rc)
        return SYSTEM - rc;
    done->identity = queue->wr_id;
    done->status = queue->status;
    done->stamp = ibv_wc_read_completion_ts(queue);
    ibv_end_poll(queue);
    return 1;
}

/* Take one completion of a request: 1 if there was one, 0 if not, an error below 0. */
int take(struct link *link, struct done *done)
{
    struct ibv_wc wc;
    int count;

    if (link->stamped)
        return take_stamped(link->stamped, done);
    count = ibv_poll_cq(link->sends, 1, &wc);
    if (count == 0)
        return 0;
    if (count < 0)
        return SYSTEM - EIO;
    done->identity = wc.wr_id;
    done->status = wc.status;
    return 1;
}

/* Wait for the completion of a request. */
int finish(struct link *link, const struct limit *limit, struct done *done)
{
    for (;;) {
        int rc;

        for (int turn = 0; turn < TURNS; turn++) {
            rc = take(link, done);
            if (rc)
                return rc < 0 ? rc : done->status;
        }
        rc = over(link, limit);
        if (rc)
            return rc;
    }
}

/* Wait for a message and tell the queue pair that it came on. */
int finish_receive(struct link *link, const struct limit *limit, uint32_t *pair)
{
    for (;;) {
        int rc;

        for (int turn = 0; turn < TURNS; turn++) {
            struct ibv_wc wc;
            int count = ibv_poll_cq(link->receives, 1, &wc);

            if (count < 0)
                return SYSTEM - EIO;
            if (count) {
                *pair = wc.wr_id;
                return wc.status;
            }
        }
        rc = over(link, limit);
        if (rc)
            return rc;
    }
}
