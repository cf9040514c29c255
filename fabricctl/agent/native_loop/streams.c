/* Many operations under way: streams, and numbered slots on several queue pairs. */
#include "loop.h"

#define SHARE 4 /* one request in this part of the depth reports, so that completions cost little */
#define PAIR(identity) ((uint32_t)(identity))
#define REQUESTS(identity) ((uint32_t)((identity) >> 32))

static uint64_t identity_of(uint32_t pair, uint32_t requests)
{
    return (uint64_t)requests << 32 | pair;
}

/* Take all completions there are. `seen`: whether there was one. */
static int reap(struct link *link, uint32_t *under_way, int *seen)
{
    struct done done;
    int rc;

    *seen = 0;
    while ((rc = take(link, &done)) > 0) {
        if (done.status)
            return done.status;
        link->pair[PAIR(done.identity)].under_way -= REQUESTS(done.identity);
        *under_way -= REQUESTS(done.identity);
        *seen = 1;
    }
    return rc;
}

/* Post one request after the other, of which the last reports for all. */
static int post_batch(struct link *link, struct course *course, uint32_t index, uint32_t requests)
{
    struct request request = {
        .op = course->op,
        .pair = index,
        .near = (uintptr_t)link->memory + course->offset,
        .far = link->far_buffer + course->offset,
        .identity = identity_of(index, requests),
    };
    int rc = 0;

    for (uint32_t i = 1; i <= requests && !rc; i++) {
        request.length = course->lengths[course->messages % course->lengths_count];
        request.flags = i == requests ? IBV_SEND_SIGNALED : 0;
        rc = post(link, &request);
        course->messages++;
        course->bytes += request.length;
    }
    link->pair[index].under_way += requests;
    return rc;
}

/* Fill every queue pair that has room for a batch. `posting`: whether more may follow. */
static int fill(struct link *link, struct course *course, uint64_t start, uint32_t *under_way, int *posting)
{
    uint32_t batch = link->depth / SHARE ? link->depth / SHARE : 1;

    for (uint32_t i = 0; i < course->pairs_count; i++) {
        uint32_t index = course->pairs[i], requests = batch;
        int rc;

        if (course->run_ns && course->messages && now_ns(link->nic->verbs) - start >= course->run_ns)
            *posting = 0;
        if (course->count && course->count - course->messages < requests)
            requests = course->count - course->messages;
        if (!requests)
            *posting = 0;
        if (!*posting)
            return 0;
        if (link->depth - link->pair[index].under_way < requests)
            continue;
        rc = post_batch(link, course, index, requests);
        *under_way += requests;
        if (rc)
            return rc;
    }
    return 0;
}

PUBLIC int fabricctl_stream(struct link *link, struct course *course, const struct limit *limit)
{
    const struct table *verbs = link->nic->verbs;
    uint64_t start = now_ns(verbs), last = start;
    uint32_t under_way = 0, turn = 0;
    int posting = course->count || course->run_ns, seen, rc = 0;

    while (posting || under_way) {
        if (posting)
            rc = fill(link, course, start, &under_way, &posting);
        if (!rc)
            rc = reap(link, &under_way, &seen);
        if (!rc && seen && !under_way)
            last = now_ns(verbs);
        if (!rc && ++turn % TURNS == 0)
            rc = over(link, limit);
        if (rc)
            return rc;
    }
    course->nanoseconds = last - start;
    return 0;
}

static void stamp(const struct link *link, const struct slots *slots)
{
    uint8_t *slot = link->memory + slots->first;

    for (uint64_t place = 0; place < slots->count; place++, slot += slots->step) {
        *(uint64_t *)slot = slots->mark + place;
        *(uint64_t *)(slot + slots->step - sizeof(uint64_t)) = slots->mark + place;
    }
}

/* Write every slot; the last request of each queue pair reports: then all before it have left this memory. */
PUBLIC int fabricctl_burst(struct link *link, const struct slots *slots, const struct limit *limit)
{
    struct request request = {.op = IBV_WR_RDMA_WRITE, .length = slots->step};
    struct done done;
    int rc = 0;

    stamp(link, slots);
    for (uint64_t place = 0; place < slots->count && !rc; place++) {
        uint64_t offset = slots->first + place * slots->step;

        request.pair = place % slots->paths;
        request.near = (uintptr_t)link->memory + offset;
        request.far = link->far_buffer + offset;
        request.flags = place + slots->paths >= slots->count ? IBV_SEND_SIGNALED : 0;
        rc = post(link, &request);
    }
    for (uint64_t path = 0; path < slots->paths && path < slots->count && !rc; path++)
        rc = finish(link, limit, &done);
    return rc;
}

/* Note the places whose slot does not hold its stamp at both ends, and return how many there are. */
PUBLIC uint64_t fabricctl_absent(const struct link *link, const struct slots *slots, uint32_t *places)
{
    const uint8_t *slot = link->memory + slots->first;
    uint64_t count = 0;

    for (uint64_t place = 0; place < slots->count; place++, slot += slots->step) {
        const uint64_t *head = (const uint64_t *)slot;
        const uint64_t *tail = (const uint64_t *)(slot + slots->step - sizeof(uint64_t));
        uint64_t mark = slots->mark + place;

        if (__atomic_load_n(head, __ATOMIC_ACQUIRE) != mark || __atomic_load_n(tail, __ATOMIC_ACQUIRE) != mark)
            places[count++] = place;
    }
    return count;
}
