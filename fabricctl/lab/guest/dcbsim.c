// SPDX-License-Identifier: GPL-2.0
/*
 * dcbsim: IEEE 802.1Qaz state in memory for network devices that have no DCB
 * hardware, so that dcb(8) and lldpd talk to the kernel's own DCB netlink
 * interface in a test guest. No frame is ever paused, queued or shaped by it.
 *
 *   modprobe dcbsim attach=eth1,eth2
 *   echo eth3 > /sys/module/dcbsim/parameters/attach
 *   echo eth3 > /sys/module/dcbsim/parameters/detach
 *
 * What it refuses is modelled on what real RoCE NICs refuse: APP entries whose
 * selector is not DSCP, priorities and classes above 7, DCBX left to a
 * firmware or host agent, ETS shares that do not add up to 100 percent.
 */
#include <linux/list.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <net/dcbnl.h>
#include <net/net_namespace.h>

#define DCBSIM_DSCP_MAX 63
#define DCBSIM_BUFFER_BYTES 524288
#define DCBSIM_MODE (DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE)

struct dcbsim_port {
	struct list_head node;
	struct net_device *dev;
	struct ieee_pfc pfc;
	struct ieee_ets ets;
	struct dcbnl_buffer buffer;
	u8 dcbx;
};

/* Guarded by RTNL, under which the kernel also calls every operation below. */
static LIST_HEAD(ports);

static struct dcbsim_port *port_of(const struct net_device *dev)
{
	struct dcbsim_port *port;

	ASSERT_RTNL();
	list_for_each_entry(port, &ports, node)
		if (port->dev == dev)
			return port;
	return NULL;
}

static int dcbsim_getpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	*pfc = port_of(dev)->pfc;
	return 0;
}

static int dcbsim_setpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct ieee_pfc *own = &port_of(dev)->pfc;

	/* Capability and counters belong to the device, the rest to the caller. */
	own->pfc_en = pfc->pfc_en;
	own->mbc = pfc->mbc;
	own->delay = pfc->delay;
	return 0;
}

static int dcbsim_getets(struct net_device *dev, struct ieee_ets *ets)
{
	*ets = port_of(dev)->ets;
	return 0;
}

static int dcbsim_check_ets(const struct ieee_ets *ets)
{
	bool shares = false;
	int sum = 0;
	int i;

	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		if (ets->prio_tc[i] >= IEEE_8021QAZ_MAX_TCS)
			return -EINVAL;
		switch (ets->tc_tsa[i]) {
		case IEEE_8021QAZ_TSA_STRICT:
		case IEEE_8021QAZ_TSA_VENDOR:
			break;
		case IEEE_8021QAZ_TSA_ETS:
			shares = true;
			sum += ets->tc_tx_bw[i];
			break;
		default:
			return -EOPNOTSUPP;
		}
	}
	return shares && sum != 100 ? -EINVAL : 0;
}

static int dcbsim_setets(struct net_device *dev, struct ieee_ets *ets)
{
	struct ieee_ets *own = &port_of(dev)->ets;
	int err = dcbsim_check_ets(ets);
	u8 cap = own->ets_cap;

	if (err)
		return err;
	*own = *ets;
	own->ets_cap = cap;
	own->willing = 0;
	return 0;
}

static int dcbsim_check_app(const struct dcb_app *app)
{
	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP)
		return -EINVAL;
	if (app->protocol > DCBSIM_DSCP_MAX || app->priority >= IEEE_8021QAZ_MAX_TCS)
		return -EINVAL;
	return 0;
}

static int dcbsim_setapp(struct net_device *dev, struct dcb_app *app)
{
	int err = dcbsim_check_app(app);

	return err ? err : dcb_ieee_setapp(dev, app);
}

static int dcbsim_delapp(struct net_device *dev, struct dcb_app *app)
{
	int err = dcbsim_check_app(app);

	return err ? err : dcb_ieee_delapp(dev, app);
}

static u8 dcbsim_getdcbx(struct net_device *dev)
{
	return port_of(dev)->dcbx;
}

static u8 dcbsim_setdcbx(struct net_device *dev, u8 mode)
{
	/* Only the host may own the state; 1 means refused here. */
	if (mode & (DCB_CAP_DCBX_LLD_MANAGED | DCB_CAP_DCBX_VER_CEE))
		return 1;
	if ((mode & DCBSIM_MODE) != DCBSIM_MODE)
		return 1;
	port_of(dev)->dcbx = mode;
	return 0;
}

static int dcbsim_getbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	*buffer = port_of(dev)->buffer;
	return 0;
}

static int dcbsim_setbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	struct dcbnl_buffer *own = &port_of(dev)->buffer;
	u64 sum = 0;
	int i;

	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++)
		if (buffer->prio2buffer[i] >= DCBX_MAX_BUFFERS)
			return -EINVAL;
	for (i = 0; i < DCBX_MAX_BUFFERS; i++)
		sum += buffer->buffer_size[i];
	if (sum > own->total_size)
		return -EINVAL;
	memcpy(own->prio2buffer, buffer->prio2buffer, sizeof(own->prio2buffer));
	memcpy(own->buffer_size, buffer->buffer_size, sizeof(own->buffer_size));
	return 0;
}

static const struct dcbnl_rtnl_ops dcbsim_ops = {
	.ieee_getpfc = dcbsim_getpfc,
	.ieee_setpfc = dcbsim_setpfc,
	.ieee_getets = dcbsim_getets,
	.ieee_setets = dcbsim_setets,
	.ieee_setapp = dcbsim_setapp,
	.ieee_delapp = dcbsim_delapp,
	.getdcbx = dcbsim_getdcbx,
	.setdcbx = dcbsim_setdcbx,
	.dcbnl_getbuffer = dcbsim_getbuffer,
	.dcbnl_setbuffer = dcbsim_setbuffer,
};

static void dcbsim_reset(struct dcbsim_port *port)
{
	int i;

	port->pfc.pfc_cap = IEEE_8021QAZ_MAX_TCS;
	port->ets.ets_cap = IEEE_8021QAZ_MAX_TCS;
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		port->ets.prio_tc[i] = i;
		port->ets.tc_tsa[i] = IEEE_8021QAZ_TSA_STRICT;
	}
	port->buffer.total_size = DCBSIM_BUFFER_BYTES;
	port->buffer.buffer_size[0] = DCBSIM_BUFFER_BYTES;
	port->dcbx = DCBSIM_MODE;
}

static int dcbsim_attach(const char *name)
{
	struct dcbsim_port *port;
	struct net_device *dev;

	ASSERT_RTNL();
	dev = __dev_get_by_name(&init_net, name);
	if (!dev)
		return -ENODEV;
	if (port_of(dev))
		return 0;
	if (dev->dcbnl_ops)
		return -EBUSY;
	port = kzalloc(sizeof(*port), GFP_KERNEL);
	if (!port)
		return -ENOMEM;
	dcbsim_reset(port);
	port->dev = dev;
	dev_hold(dev);
	list_add_tail(&port->node, &ports);
	dev->dcbnl_ops = &dcbsim_ops;
	return 0;
}

static void dcbsim_release(struct dcbsim_port *port)
{
	ASSERT_RTNL();
	port->dev->dcbnl_ops = NULL;
	list_del(&port->node);
	dev_put(port->dev);
	kfree(port);
}

static int dcbsim_detach(const char *name)
{
	struct dcbsim_port *port;

	ASSERT_RTNL();
	list_for_each_entry(port, &ports, node) {
		if (strcmp(port->dev->name, name))
			continue;
		dcbsim_release(port);
		return 0;
	}
	return -ENODEV;
}

/* Applies one of the two functions above to each name of a comma-separated list. */
static int dcbsim_each(const char *list, int (*apply)(const char *name))
{
	char *copy = kstrdup(list, GFP_KERNEL);
	char *rest;
	char *name;
	int err = 0;

	if (!copy)
		return -ENOMEM;
	rest = strim(copy);
	rtnl_lock();
	while (!err && (name = strsep(&rest, ",")) != NULL)
		if (*name)
			err = apply(name);
	rtnl_unlock();
	kfree(copy);
	return err;
}

static int attach_set(const char *value, const struct kernel_param *kp)
{
	return dcbsim_each(value, dcbsim_attach);
}

static int attach_get(char *text, const struct kernel_param *kp)
{
	struct dcbsim_port *port;
	int length = 0;

	rtnl_lock();
	list_for_each_entry(port, &ports, node)
		length += scnprintf(text + length, PAGE_SIZE - length, "%s%s",
				    length ? "," : "", port->dev->name);
	rtnl_unlock();
	return length + scnprintf(text + length, PAGE_SIZE - length, "\n");
}

static int detach_set(const char *value, const struct kernel_param *kp)
{
	return dcbsim_each(value, dcbsim_detach);
}

static const struct kernel_param_ops attach_ops = { .set = attach_set, .get = attach_get };
static const struct kernel_param_ops detach_ops = { .set = detach_set };

module_param_cb(attach, &attach_ops, NULL, 0644);
MODULE_PARM_DESC(attach, "network devices that get DCB state, comma separated");
module_param_cb(detach, &detach_ops, NULL, 0200);
MODULE_PARM_DESC(detach, "network devices that lose it again, comma separated");

static int dcbsim_event(struct notifier_block *block, unsigned long event, void *data)
{
	struct dcbsim_port *port;

	if (event != NETDEV_UNREGISTER)
		return NOTIFY_DONE;
	port = port_of(netdev_notifier_info_to_dev(data));
	if (port)
		dcbsim_release(port);
	return NOTIFY_DONE;
}

static struct notifier_block dcbsim_notifier = { .notifier_call = dcbsim_event };

static int __init dcbsim_init(void)
{
	return register_netdevice_notifier(&dcbsim_notifier);
}

static void __exit dcbsim_exit(void)
{
	struct dcbsim_port *port;
	struct dcbsim_port *next;

	unregister_netdevice_notifier(&dcbsim_notifier);
	rtnl_lock();
	list_for_each_entry_safe(port, next, &ports, node)
		dcbsim_release(port);
	rtnl_unlock();
}

module_init(dcbsim_init);
module_exit(dcbsim_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("IEEE DCB state in memory for the network devices of a test guest");
