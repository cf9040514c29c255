/* One operation at a time: round trips, ping-pong, messages taken, words of control. */
#include "loop.h"

static uint32_t flags_of(const struct link *link, uint32_t op, uint32_t length)
{
    int inlined = op != IBV_WR_RDMA_READ && length <= link->inline_bytes;

    return IBV_SEND_SIGNALED | (inlined ? IBV_SEND_INLINE : 0);
}

static struct request single(const struct link *link, uint32_t op, uint32_t length, uint32_t pair, uint64_t far)
{
    return (struct request){
        .op = op,
        .pair = pair,
        .length = length,
        .flags = flags_of(link, op, length),
        .near = (uintptr_t)link->memory,
        .far = link->far_buffer + far,
        .identity = pair,
    };
}

/* `took`: nanoseconds of each; `ticks`: the NIC's stamps, NULL where it has none. */
PUBLIC int fabricctl_round_trips(struct link *link, uint32_t op, uint32_t length, uint32_t pair, uint64_t count,
                                 const struct limit *limit, uint64_t *took, uint64_t *ticks)
{
    struct request request = single(link, op, length, pair, 0);
    const struct table *verbs = link->nic->verbs;
    struct done done = {0};

    for (uint64_t i = 0; i < count; i++) {
        uint64_t start = now_ns(verbs);
        int rc = post(link, &request);

        if (!rc)
            rc = finish(link, limit, &done);
        if (rc)
            return rc;
        took[i] = now_ns(verbs) - start;
        if (ticks)
            ticks[i] = done.stamp;
    }
    return 0;
}

static int see(const struct link *link, const uint8_t *place, uint8_t ball, const struct limit *limit)
{
    for (;;) {
        int rc;

        for (int turn = 0; turn < TURNS; turn++)
            if (__atomic_load_n(place, __ATOMIC_ACQUIRE) == ball)
                return 0;
        rc = over(link, limit);
        if (rc)
            return rc;
    }
}

static int hit(struct link *link, struct request *request, const struct limit *limit)
{
    struct done done;
    int rc = post(link, request);

    return rc ? rc : finish(link, limit, &done);
}

/* RDMA WRITE to and fro; `ball` is the last byte of the first message. `took` is NULL on the second side. */
PUBLIC int fabricctl_pingpong(struct link *link, uint32_t length, uint64_t inbound, uint32_t pair, uint64_t count,
                              uint32_t ball, const struct limit *limit, uint64_t *took)
{
    struct request request = single(link, IBV_WR_RDMA_WRITE, length, pair, inbound);
    uint8_t *sent = link->memory + length - 1, *seen = link->memory + inbound + length - 1;
    const struct table *verbs = link->nic->verbs;
    int rc = 0;

    for (uint64_t i = 0; i < count && !rc; i++, ball++) {
        if (took) {
            uint64_t start = now_ns(verbs);

            __atomic_store_n(sent, (uint8_t)ball, __ATOMIC_RELEASE);
            rc = hit(link, &request, limit);
            if (!rc)
                rc = see(link, seen, ball, limit);
            took[i] = now_ns(verbs) - start;
        } else {
            rc = see(link, seen, ball, limit);
            __atomic_store_n(sent, (uint8_t)ball, __ATOMIC_RELEASE);
            if (!rc)
                rc = hit(link, &request, limit);
        }
    }
    return rc;
}

/* The same with SEND. */
PUBLIC int fabricctl_messages(struct link *link, uint32_t length, uint32_t pair, uint64_t count,
                              const struct limit *limit, uint64_t *took)
{
    struct request request = single(link, IBV_WR_SEND, length, pair, 0);
    const struct table *verbs = link->nic->verbs;
    uint32_t came;
    int rc = 0;

    for (uint64_t i = 0; i < count && !rc; i++) {
        uint64_t start = now_ns(verbs);

        if (took)
            rc = hit(link, &request, limit);
        if (!rc)
            rc = finish_receive(link, limit, &came);
        if (took)
            took[i] = now_ns(verbs) - start;
        if (!rc)
            rc = post_receive(link, pair, length);
        if (!rc && !took)
            rc = hit(link, &request, limit);
    }
    return rc;
}

/* Take messages of any queue pair; each gets a new receive where it came. */
PUBLIC int fabricctl_absorb(struct link *link, uint32_t length, uint64_t count, const struct limit *limit)
{
    uint32_t pair;
    int rc = 0;

    for (uint64_t i = 0; i < count && !rc; i++) {
        rc = finish_receive(link, limit, &pair);
        if (!rc)
            rc = post_receive(link, pair, length);
    }
    return rc;
}

/* Write the word at `near` of the own memory into the peer's control page. */
PUBLIC int fabricctl_word_out(struct link *link, uint32_t pair, uint64_t near, uint64_t word,
                              const struct limit *limit)
{
    struct request request = single(link, IBV_WR_RDMA_WRITE, sizeof(word), pair, 0);

    request.near = (uintptr_t)link->memory + near;
    request.far = link->far_control;
    __atomic_store_n((uint64_t *)(uintptr_t)request.near, word, __ATOMIC_RELEASE);
    return hit(link, &request, limit);
}

PUBLIC int fabricctl_word_in(const struct link *link, uint64_t near, uint64_t word, const struct limit *limit)
{
    const uint64_t *place = (const uint64_t *)(link->memory + near);

    for (;;) {
        int rc;

        for (int turn = 0; turn < TURNS; turn++)
            if (__atomic_load_n(place, __ATOMIC_ACQUIRE) == word)
                return 0;
        rc = over(link, limit);
        if (rc)
            return rc;
    }
}
