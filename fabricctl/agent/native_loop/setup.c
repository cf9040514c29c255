/* Devices, memory and queue pairs. */
#include "loop.h"

static void *clear(void *start, size_t length)
{
    volatile uint8_t *at = start; /* volatile: the compiler must not make a call of memset of it */

    while (length--)
        *at++ = 0;
    return start;
}

static int failed(const struct table *verbs)
{
    int code = *verbs->errno_place();

    return SYSTEM - (code > 0 ? code : EIO);
}

static int same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

PUBLIC int fabricctl_version(void)
{
    return VERSION;
}

/* Sizes that Python compares with its own, so that the two never disagree unseen. */
PUBLIC uint32_t fabricctl_size(uint32_t which)
{
    static const uint32_t sizes[] = {
        sizeof(struct table), sizeof(struct port_state), sizeof(struct wish),  sizeof(struct route),
        sizeof(struct limit), sizeof(struct course),     sizeof(struct slots),
    };

    return which < sizeof(sizes) / sizeof(sizes[0]) ? sizes[which] : 0;
}

static void find_clock(struct nic *nic)
{
    struct verbs_context *extended = verbs_get_ctx_op(nic->context, query_device_ex);
    struct ibv_device_attr_ex attributes;

    if (!extended || !verbs_get_ctx_op(nic->context, create_cq_ex))
        return;
    clear(&attributes, sizeof(attributes));
    if (extended->query_device_ex(nic->context, NULL, &attributes, sizeof(attributes)))
        return;
    if (!attributes.completion_timestamp_mask)
        return;
    nic->clock_khz = attributes.hca_core_clock;
    nic->clock_mask = attributes.completion_timestamp_mask;
}

PUBLIC void fabricctl_close(struct nic *nic)
{
    if (nic->pd)
        nic->verbs->dealloc_pd(nic->pd);
    if (nic->context)
        nic->verbs->close_device(nic->context);
    nic->verbs->free(nic);
}

PUBLIC int fabricctl_open(const struct table *verbs, const char *name, uint32_t port, struct nic **made)
{
    struct ibv_device **list = verbs->get_device_list(NULL);
    struct nic *nic;
    int rc;

    if (!list)
        return failed(verbs);
    nic = verbs->calloc(1, sizeof(*nic));
    if (!nic) {
        verbs->free_device_list(list);
        return SYSTEM - ENOMEM;
    }
    nic->verbs = verbs;
    nic->port = port;
    *verbs->errno_place() = ENODEV;
    for (struct ibv_device **at = list; *at && !nic->context; at++)
        if (same(verbs->get_device_name(*at), name))
            nic->context = verbs->open_device(*at);
    if (nic->context)
        nic->pd = verbs->alloc_pd(nic->context);
    rc = nic->pd ? 0 : failed(verbs);
    verbs->free_device_list(list);
    if (rc) {
        fabricctl_close(nic);
        return rc;
    }
    find_clock(nic);
    *made = nic;
    return 0;
}

PUBLIC int fabricctl_port(struct nic *nic, struct port_state *state)
{
    struct verbs_context *extended = verbs_get_ctx_op(nic->context, query_port);
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    int rc;

    clear(&port, sizeof(port));
    if (extended)
        rc = extended->query_port(nic->context, nic->port, &port, sizeof(port));
    else
        rc = nic->verbs->query_port(nic->context, nic->port, (struct _compat_ibv_port_attr *)&port);
    if (rc)
        return SYSTEM - rc;
    rc = nic->verbs->query_device(nic->context, &device);
    if (rc)
        return SYSTEM - rc;
    state->state = port.state;
    state->lid = port.lid;
    state->mtu = port.active_mtu;
    state->reads = device.max_qp_rd_atom < device.max_qp_init_rd_atom ? device.max_qp_rd_atom
                                                                      : device.max_qp_init_rd_atom;
    state->clock_khz = nic->clock_khz;
    state->clock_mask = nic->clock_mask;
    return 0;
}

PUBLIC int fabricctl_register(struct nic *nic, void *start, uint64_t length, struct ibv_mr **made, uint32_t *key)
{
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    struct ibv_mr *mr = (nic->verbs->reg_mr)(nic->pd, start, length, access);

    if (!mr)
        return failed(nic->verbs);
    *made = mr;
    *key = mr->rkey;
    return 0;
}

PUBLIC void fabricctl_forget(struct nic *nic, struct ibv_mr *mr)
{
    nic->verbs->dereg_mr(mr);
}

/* Close in reverse order; what is not there yet is left out. */
PUBLIC void fabricctl_release(struct link *link)
{
    const struct table *verbs = link->nic->verbs;

    for (uint32_t i = 0; i < link->pairs; i++)
        if (link->pair[i].qp)
            verbs->destroy_qp(link->pair[i].qp);
    if (link->receives)
        verbs->destroy_cq(link->receives);
    if (link->sends)
        verbs->destroy_cq(link->sends);
    verbs->free(link);
}

static int make_queues(struct link *link, const struct wish *wish)
{
    struct nic *nic = link->nic;
    int size = wish->depth * wish->pairs + 1;

    if (nic->clock_khz) {
        struct verbs_context *extended = verbs_get_ctx_op(nic->context, create_cq_ex);
        struct ibv_cq_init_attr_ex attributes;

        clear(&attributes, sizeof(attributes));
        attributes.cqe = size;
        attributes.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
        link->stamped = extended->create_cq_ex(nic->context, &attributes);
        if (link->stamped)
            link->sends = ibv_cq_ex_to_cq(link->stamped);
    }
    if (!link->sends)
        link->sends = nic->verbs->create_cq(nic->context, size, NULL, NULL, 0);
    if (!link->sends)
        return failed(nic->verbs);
    size = wish->receives * wish->pairs + 1;
    link->receives = nic->verbs->create_cq(nic->context, size, NULL, NULL, 0);
    return link->receives ? 0 : failed(nic->verbs);
}

static struct ibv_qp *make_pair(struct link *link, const struct wish *wish, int unreliable, uint32_t inlined)
{
    struct ibv_qp_init_attr attributes;

    clear(&attributes, sizeof(attributes));
    attributes.qp_type = unreliable ? IBV_QPT_UC : IBV_QPT_RC;
    attributes.send_cq = link->sends;
    attributes.recv_cq = link->receives;
    attributes.cap.max_send_wr = wish->depth;
    attributes.cap.max_recv_wr = wish->receives ? wish->receives : 1;
    attributes.cap.max_send_sge = 1;
    attributes.cap.max_recv_sge = 1;
    attributes.cap.max_inline_data = inlined;
    return link->nic->verbs->create_qp(link->nic->pd, &attributes);
}

static int to_init(struct link *link, uint32_t index)
{
    struct ibv_qp_attr attributes;
    int rc;

    clear(&attributes, sizeof(attributes));
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = link->nic->port;
    attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    rc = link->nic->verbs->modify_qp(link->pair[index].qp, &attributes,
                                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    return rc ? SYSTEM - rc : 0;
}

static int make_pairs(struct link *link, const struct wish *wish)
{
    for (uint32_t i = 0; i < wish->pairs; i++) {
        struct pair *pair = &link->pair[i];
        int rc;

        pair->qp = make_pair(link, wish, wish->unreliable[i], link->inline_bytes);
        if (!pair->qp && link->inline_bytes) { /* a device that takes less within a request, or nothing */
            link->inline_bytes = 0;
            pair->qp = make_pair(link, wish, wish->unreliable[i], 0);
        }
        if (!pair->qp)
            return failed(link->nic->verbs);
        rc = to_init(link, i);
        for (uint32_t k = 0; !rc && k < wish->receives; k++)
            rc = post_receive(link, i, wish->buffer_bytes);
        if (rc)
            return rc;
    }
    return 0;
}

PUBLIC int fabricctl_link(struct nic *nic, struct ibv_mr *mr, const struct wish *wish, struct link **made)
{
    struct link *link = nic->verbs->calloc(1, sizeof(*link) + wish->pairs * sizeof(link->pair[0]));
    int rc;

    if (!link)
        return SYSTEM - ENOMEM;
    link->nic = nic;
    link->mr = mr;
    link->memory = wish->memory;
    link->inline_bytes = wish->inline_bytes;
    link->depth = wish->depth;
    link->pairs = wish->pairs;
    rc = make_queues(link, wish);
    if (!rc)
        rc = make_pairs(link, wish);
    if (rc)
        fabricctl_release(link);
    else
        *made = link;
    return rc;
}

PUBLIC uint32_t fabricctl_number(const struct link *link, uint32_t pair)
{
    return link->pair[pair].qp->qp_num;
}

PUBLIC int fabricctl_stamps(const struct link *link)
{
    return link->stamped != NULL;
}

static int to_receive(struct link *link, struct ibv_qp *qp, const struct route *route)
{
    int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN, rc;
    struct ibv_qp_attr attributes;

    clear(&attributes, sizeof(attributes));
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = route->mtu;
    attributes.dest_qp_num = route->far_number;
    attributes.rq_psn = route->far_psn;
    attributes.ah_attr.port_num = link->nic->port;
    attributes.ah_attr.dlid = route->lid;
    attributes.ah_attr.is_global = route->is_global;
    if (route->is_global) {
        for (int i = 0; i < 16; i++)
            attributes.ah_attr.grh.dgid.raw[i] = route->gid[i];
        attributes.ah_attr.grh.sgid_index = route->gid_index;
        attributes.ah_attr.grh.hop_limit = route->hop_limit;
        attributes.ah_attr.grh.traffic_class = route->traffic_class;
        attributes.ah_attr.grh.flow_label = route->flow_label;
    }
    if (qp->qp_type == IBV_QPT_RC) {
        attributes.max_dest_rd_atomic = route->far_reads;
        attributes.min_rnr_timer = route->rnr_timer;
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    }
    rc = link->nic->verbs->modify_qp(qp, &attributes, mask);
    return rc ? SYSTEM - rc : 0;
}

static int to_send(struct link *link, struct ibv_qp *qp, const struct route *route)
{
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN, rc;
    struct ibv_qp_attr attributes;

    clear(&attributes, sizeof(attributes));
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = route->near_psn;
    if (qp->qp_type == IBV_QPT_RC) {
        attributes.timeout = route->timeout;
        attributes.retry_cnt = route->retries;
        attributes.rnr_retry = route->rnr_retries;
        attributes.max_rd_atomic = route->reads;
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    rc = link->nic->verbs->modify_qp(qp, &attributes, mask);
    return rc ? SYSTEM - rc : 0;
}

PUBLIC int fabricctl_connect(struct link *link, uint32_t pair, const struct route *route)
{
    int rc = to_receive(link, link->pair[pair].qp, route);

    return rc ? rc : to_send(link, link->pair[pair].qp, route);
}

PUBLIC void fabricctl_peer(struct link *link, uint64_t buffer, uint64_t control, uint32_t key)
{
    link->far_buffer = buffer;
    link->far_control = control;
    link->far_key = key;
}
