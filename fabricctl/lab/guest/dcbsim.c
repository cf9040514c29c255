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
 *
 * A port can also follow the rules of one vendor's driver, as its source in
 * the kernel has them; it then starts anew as after loading that driver:
 *
 *   modprobe dcbsim attach=eth1:mlx5
 *   echo eth1:bnxt3,eth2:irdma > /sys/module/dcbsim/parameters/profile
 *
 * plain   the above
 * mlx5    a DSCP entry replaces the old one by itself, so that deleting the old
 *         one fails; a PFC change takes the link down for a second; the PFC
 *         delay is the cable's length in metres and silently kept where it is
 *         0, or 1000 and more; classes that are not ETS read 100 percent;
 *         buffers come in cells of 128 bytes
 * bnxt    any APP selector; 8 classes, two of them lossless; no class may
 *         starve; no PFC before ETS was set; no buffers
 * bnxt3   the same with 3 classes, one of them lossless
 * irdma   (the ice driver) a DSCP that has an entry takes no other; the first
 *         one resets ETS and then holds priority n in class n, the last to go
 *         resets everything; each change takes the link down; no buffers
 *
 *   echo eth1:firmware > /sys/module/dcbsim/parameters/dcbx
 *
 * host      the host sets
 * willing   the firmware sets: what the host sets is undone a second later
 * firmware  the firmware sets, and the host is refused
 *
 *   echo eth1:pfc > /sys/module/dcbsim/parameters/refuse
 *
 * makes the next ones of pfc, ets, app or buffer fail with an I/O error, until
 * eth1:none.
 */
#include <linux/bitmap.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <net/dcbnl.h>
#include <net/net_namespace.h>

#define DCBSIM_DSCPS 64
#define DCBSIM_PERCENT 100
#define DCBSIM_BUFFER_BYTES 524288
#define DCBSIM_MODE (DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE)
#define DCBSIM_LINK_OUTAGE HZ

#define MLX5_CABLE_DEFAULT_M 7
#define MLX5_CABLE_END_M 1000
#define MLX5_BUFFER_BYTES 262016
#define MLX5_BUFFER_EACH_BYTES 130944
#define MLX5_CELL_BYTES 128

#define ROCE_V2_UDP_PORT 4791
#define ROCE_V1_ETHERTYPE 0x8915

enum dcbsim_profile { PLAIN, MLX5, BNXT, BNXT3, IRDMA };
static const char *const profile_names[] = { "plain", "mlx5", "bnxt", "bnxt3", "irdma" };

enum dcbsim_owner { HOST, WILLING, FIRMWARE };
static const char *const owner_names[] = { "host", "willing", "firmware" };

enum dcbsim_refusal { NONE, PFC, ETS, APP, BUFFER };
static const char *const refusal_names[] = { "none", "pfc", "ets", "app", "buffer" };

struct dcbsim_port {
	struct list_head node;
	struct net_device *dev;
	struct delayed_work later;
	enum dcbsim_profile profile;
	enum dcbsim_owner owner;
	/* One bit for each refusal. */
	unsigned long refused;
	struct ieee_pfc pfc;
	struct ieee_ets ets;
	struct dcbnl_buffer buffer;
	/* The priority of each DSCP that has an entry. */
	u8 dscp_priority[DCBSIM_DSCPS];
	DECLARE_BITMAP(dscp_mapped, DCBSIM_DSCPS);
	u8 classes;
	u8 dcbx;
	bool ets_was_set;
	bool link_down;
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

static bool dcbsim_is_bnxt(const struct dcbsim_port *port)
{
	return port->profile == BNXT || port->profile == BNXT3;
}

/* Tells whether the host may set anything at all, and `what` in particular. */
static int dcbsim_check_owner(const struct dcbsim_port *port, enum dcbsim_refusal what)
{
	if (port->owner == FIRMWARE)
		return -EINVAL;
	return test_bit(what, &port->refused) ? -EIO : 0;
}

/* The link is back, or the firmware has its way again. */
static void dcbsim_later(struct work_struct *work)
{
	struct dcbsim_port *port = container_of(to_delayed_work(work), struct dcbsim_port, later);

	/* Who cancels this work may hold RTNL and wait for it. */
	if (!rtnl_trylock()) {
		schedule_delayed_work(&port->later, 1);
		return;
	}
	if (port->link_down)
		netif_carrier_on(port->dev);
	port->link_down = false;
	if (port->owner == WILLING)
		port->pfc.pfc_en = 0;
	rtnl_unlock();
}

static void dcbsim_changed(struct dcbsim_port *port, bool toggles_link)
{
	if (toggles_link && netif_running(port->dev) && netif_carrier_ok(port->dev)) {
		netif_carrier_off(port->dev);
		port->link_down = true;
	}
	if (port->link_down || port->owner == WILLING)
		mod_delayed_work(system_wq, &port->later, DCBSIM_LINK_OUTAGE);
}

static int dcbsim_getpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	*pfc = port_of(dev)->pfc;
	return 0;
}

/* Firmware has only so many lossless queues, and knows classes only once ETS was set. */
static int bnxt_check_pfc(const struct dcbsim_port *port, const struct ieee_pfc *pfc)
{
	unsigned long lossless = 0;
	int i;

	if (!port->ets_was_set)
		return -EINVAL;
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++)
		if (pfc->pfc_en & BIT(i))
			__set_bit(port->ets.prio_tc[i], &lossless);
	return hweight_long(lossless) > port->pfc.pfc_cap ? -EINVAL : 0;
}

static int dcbsim_setpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct dcbsim_port *port = port_of(dev);
	struct ieee_pfc *own = &port->pfc;
	bool mask_changes = own->pfc_en != pfc->pfc_en;
	int err = dcbsim_check_owner(port, PFC);

	if (!err && dcbsim_is_bnxt(port))
		err = bnxt_check_pfc(port, pfc);
	if (err)
		return err;
	/* Capability and counters belong to the device, the rest to the caller. */
	own->pfc_en = pfc->pfc_en;
	if (port->profile == MLX5) {
		if (pfc->delay && pfc->delay < MLX5_CABLE_END_M)
			own->delay = pfc->delay;
	} else if (port->profile != IRDMA) {
		own->mbc = pfc->mbc;
		own->delay = pfc->delay;
	}
	dcbsim_changed(port, mask_changes && (port->profile == MLX5 || port->profile == IRDMA));
	return 0;
}

static int dcbsim_getets(struct net_device *dev, struct ieee_ets *ets)
{
	struct dcbsim_port *port = port_of(dev);
	int i;

	*ets = port->ets;
	if (port->profile == MLX5)
		for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++)
			if (ets->tc_tsa[i] != IEEE_8021QAZ_TSA_ETS)
				ets->tc_tx_bw[i] = DCBSIM_PERCENT;
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
	return shares && sum != DCBSIM_PERCENT ? -EINVAL : 0;
}

static int bnxt_check_ets(const struct dcbsim_port *port, const struct ieee_ets *ets)
{
	bool starving = false;
	u8 used = 0;
	int sum = 0;
	int i;

	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		if (ets->prio_tc[i] >= port->classes)
			return -EINVAL;
		if (i >= port->classes && (ets->tc_tx_bw[i] || ets->tc_tsa[i]))
			return -EINVAL;
		used = max_t(u8, used, ets->prio_tc[i] + 1);
	}
	for (i = 0; i < used; i++) {
		if (ets->tc_tsa[i] == IEEE_8021QAZ_TSA_STRICT)
			continue;
		if (ets->tc_tsa[i] != IEEE_8021QAZ_TSA_ETS)
			return -EOPNOTSUPP;
		sum += ets->tc_tx_bw[i];
		starving = starving || !ets->tc_tx_bw[i];
	}
	return sum > DCBSIM_PERCENT || (starving && sum == DCBSIM_PERCENT) ? -EINVAL : 0;
}

static bool dcbsim_trusts_dscp(const struct dcbsim_port *port)
{
	return !bitmap_empty(port->dscp_mapped, DCBSIM_DSCPS);
}

/* Adds up the shares of the classes in use; gives class 0 all where nobody has any. */
static int irdma_complete_ets(const struct dcbsim_port *port, struct ieee_ets *ets)
{
	u8 used = 0;
	int sum = 0;
	int i;

	if (dcbsim_trusts_dscp(port))
		memcpy(ets->prio_tc, port->ets.prio_tc, sizeof(ets->prio_tc));
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		if (ets->prio_tc[i] >= IEEE_8021QAZ_MAX_TCS)
			return -EINVAL;
		used = max_t(u8, used, ets->prio_tc[i] + 1);
	}
	for (i = 0; i < used; i++)
		sum += ets->tc_tx_bw[i];
	if (!sum)
		ets->tc_tx_bw[0] = DCBSIM_PERCENT;
	return sum && sum != DCBSIM_PERCENT ? -EINVAL : 0;
}

static int dcbsim_setets(struct net_device *dev, struct ieee_ets *ets)
{
	struct dcbsim_port *port = port_of(dev);
	struct ieee_ets *own = &port->ets;
	u8 cap = own->ets_cap;
	int err = dcbsim_check_owner(port, ETS);

	if (!err && dcbsim_is_bnxt(port))
		err = bnxt_check_ets(port, ets);
	else if (!err && port->profile == IRDMA)
		err = irdma_complete_ets(port, ets);
	else if (!err)
		err = dcbsim_check_ets(ets);
	if (err)
		return err;
	*own = *ets;
	own->ets_cap = cap;
	own->willing = 0;
	port->ets_was_set = true;
	dcbsim_changed(port, port->profile == IRDMA);
	return 0;
}

static int dcbsim_check_app(const struct dcbsim_port *port, const struct dcb_app *app)
{
	int err = dcbsim_check_owner(port, APP);

	if (err)
		return err;
	if (app->priority >= IEEE_8021QAZ_MAX_TCS)
		return -EINVAL;
	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP)
		return dcbsim_is_bnxt(port) ? 0 : -EINVAL;
	return app->protocol >= DCBSIM_DSCPS ? -EINVAL : 0;
}

/* What the driver does when the first DSCP entry makes it trust DSCP. */
static void irdma_begin_dscp(struct dcbsim_port *port)
{
	int i;

	port->ets.willing = 0;
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		port->ets.tc_tx_bw[i] = i ? 0 : DCBSIM_PERCENT;
		port->ets.tc_tsa[i] = IEEE_8021QAZ_TSA_ETS;
		port->ets.prio_tc[i] = i;
	}
}

static void irdma_reset(struct dcbsim_port *port)
{
	u8 cap = IEEE_8021QAZ_MAX_TCS;

	memset(&port->ets, 0, sizeof(port->ets));
	port->ets.ets_cap = cap;
	port->ets.willing = 1;
	port->ets.tc_tx_bw[0] = DCBSIM_PERCENT;
	port->ets.tc_tsa[0] = IEEE_8021QAZ_TSA_ETS;
	port->pfc.pfc_en = 0;
}

static int dcbsim_setapp(struct net_device *dev, struct dcb_app *app)
{
	struct dcbsim_port *port = port_of(dev);
	int err = dcbsim_check_app(port, app);
	struct dcb_app old = *app;
	bool mapped;

	if (err)
		return err;
	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP)
		return dcb_ieee_setapp(dev, app);
	mapped = test_bit(app->protocol, port->dscp_mapped);
	if (mapped && port->profile == IRDMA)
		return -EINVAL;
	if (mapped && port->profile == MLX5) {
		old.priority = port->dscp_priority[app->protocol];
		dcb_ieee_delapp(dev, &old);
	}
	if (port->profile == IRDMA && !dcbsim_trusts_dscp(port))
		irdma_begin_dscp(port);
	err = dcb_ieee_setapp(dev, app);
	if (err)
		return err;
	__set_bit(app->protocol, port->dscp_mapped);
	port->dscp_priority[app->protocol] = app->priority;
	dcbsim_changed(port, port->profile == IRDMA);
	return 0;
}

static int dcbsim_delapp(struct net_device *dev, struct dcb_app *app)
{
	struct dcbsim_port *port = port_of(dev);
	int err = dcbsim_check_app(port, app);

	if (err)
		return err;
	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP)
		return dcb_ieee_delapp(dev, app);
	/* mlx5 knows one priority of a DSCP, and that is not the one of an entry which was replaced. */
	if (port->profile == MLX5 && app->priority != port->dscp_priority[app->protocol])
		return -ENOENT;
	err = dcb_ieee_delapp(dev, app);
	if (err)
		return err;
	if (app->priority == port->dscp_priority[app->protocol]) {
		__clear_bit(app->protocol, port->dscp_mapped);
		port->dscp_priority[app->protocol] = 0;
	}
	if (port->profile == IRDMA && !dcbsim_trusts_dscp(port))
		irdma_reset(port);
	dcbsim_changed(port, port->profile == IRDMA);
	return 0;
}

static u8 dcbsim_getdcbx(struct net_device *dev)
{
	return port_of(dev)->dcbx;
}

/* The mode that a port shows by who owns its settings. */
static u8 dcbsim_mode(const struct dcbsim_port *port)
{
	u8 versions = DCB_CAP_DCBX_VER_IEEE;

	if (port->profile == MLX5)
		versions |= DCB_CAP_DCBX_VER_CEE;
	if (port->owner == HOST)
		return versions | DCB_CAP_DCBX_HOST;
	return port->profile == MLX5 ? versions : versions | DCB_CAP_DCBX_LLD_MANAGED;
}

static u8 mlx5_setdcbx(struct dcbsim_port *port, u8 mode)
{
	if (mode && !(mode & DCB_CAP_DCBX_HOST))
		return 1;
	port->owner = mode ? HOST : WILLING;
	port->dcbx = mode ? mode : dcbsim_mode(port);
	return 0;
}

static u8 dcbsim_setdcbx(struct net_device *dev, u8 mode)
{
	struct dcbsim_port *port = port_of(dev);

	/* 1 means refused here. */
	if (port->owner == FIRMWARE || (mode & DCB_CAP_DCBX_LLD_MANAGED))
		return 1;
	if (port->profile == MLX5)
		return mlx5_setdcbx(port, mode);
	/* Only the host may own the state. */
	if ((mode & DCB_CAP_DCBX_VER_CEE) || (mode & DCBSIM_MODE) != DCBSIM_MODE)
		return 1;
	port->owner = HOST;
	port->dcbx = mode;
	return 0;
}

static int dcbsim_getbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	*buffer = port_of(dev)->buffer;
	return 0;
}

static int dcbsim_setbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	struct dcbsim_port *port = port_of(dev);
	struct dcbnl_buffer *own = &port->buffer;
	int err = dcbsim_check_owner(port, BUFFER);
	u32 cell = port->profile == MLX5 ? MLX5_CELL_BYTES : 1;
	u64 sum = 0;
	int i;

	if (err)
		return err;
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++)
		if (buffer->prio2buffer[i] >= DCBX_MAX_BUFFERS)
			return -EINVAL;
	for (i = 0; i < DCBX_MAX_BUFFERS; i++)
		sum += buffer->buffer_size[i];
	if (sum > own->total_size)
		return -EINVAL;
	memcpy(own->prio2buffer, buffer->prio2buffer, sizeof(own->prio2buffer));
	for (i = 0; i < DCBX_MAX_BUFFERS; i++)
		own->buffer_size[i] = rounddown(buffer->buffer_size[i], cell);
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

static const struct dcbnl_rtnl_ops dcbsim_ops_bufferless = {
	.ieee_getpfc = dcbsim_getpfc,
	.ieee_setpfc = dcbsim_setpfc,
	.ieee_getets = dcbsim_getets,
	.ieee_setets = dcbsim_setets,
	.ieee_setapp = dcbsim_setapp,
	.ieee_delapp = dcbsim_delapp,
	.getdcbx = dcbsim_getdcbx,
	.setdcbx = dcbsim_setdcbx,
};

static void dcbsim_forget_apps(struct dcbsim_port *port)
{
	static const struct dcb_app others[] = {
		{ .selector = IEEE_8021QAZ_APP_SEL_DGRAM, .protocol = ROCE_V2_UDP_PORT },
		{ .selector = IEEE_8021QAZ_APP_SEL_ETHERTYPE, .protocol = ROCE_V1_ETHERTYPE },
	};
	struct dcb_app app;
	int i;

	for (i = 0; i < DCBSIM_DSCPS + ARRAY_SIZE(others); i++) {
		app = (struct dcb_app){ .selector = IEEE_8021QAZ_APP_SEL_DSCP, .protocol = i };
		if (i >= DCBSIM_DSCPS)
			app = others[i - DCBSIM_DSCPS];
		for (app.priority = 0; app.priority < IEEE_8021QAZ_MAX_TCS; app.priority++)
			dcb_ieee_delapp(port->dev, &app);
	}
	bitmap_zero(port->dscp_mapped, DCBSIM_DSCPS);
	memset(port->dscp_priority, 0, sizeof(port->dscp_priority));
}

static void mlx5_reset(struct dcbsim_port *port)
{
	int i;

	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++)
		port->ets.tc_tsa[i] = IEEE_8021QAZ_TSA_VENDOR;
	port->ets.prio_tc[0] = 1;
	port->ets.prio_tc[1] = 0;
	port->pfc.delay = MLX5_CABLE_DEFAULT_M;
	port->buffer.total_size = MLX5_BUFFER_BYTES;
	port->buffer.buffer_size[0] = MLX5_BUFFER_EACH_BYTES;
	port->buffer.buffer_size[1] = MLX5_BUFFER_EACH_BYTES;
}

/* Makes the port as it is after loading the driver whose rules it follows. */
static void dcbsim_reset(struct dcbsim_port *port, enum dcbsim_profile profile)
{
	int i;

	port->profile = profile;
	port->owner = HOST;
	port->refused = 0;
	port->ets_was_set = false;
	port->classes = profile == BNXT3 ? 3 : IEEE_8021QAZ_MAX_TCS;
	memset(&port->pfc, 0, sizeof(port->pfc));
	memset(&port->ets, 0, sizeof(port->ets));
	memset(&port->buffer, 0, sizeof(port->buffer));
	/* The kernel asks them for the mode whenever an entry goes. */
	port->dev->dcbnl_ops =
		profile == PLAIN || profile == MLX5 ? &dcbsim_ops : &dcbsim_ops_bufferless;
	dcbsim_forget_apps(port);
	port->pfc.pfc_cap = IEEE_8021QAZ_MAX_TCS;
	port->ets.ets_cap = port->classes;
	if (dcbsim_is_bnxt(port))
		port->pfc.pfc_cap = profile == BNXT3 ? 1 : 2;
	if (profile == PLAIN || profile == MLX5)
		for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++)
			port->ets.prio_tc[i] = i;
	port->buffer.total_size = DCBSIM_BUFFER_BYTES;
	port->buffer.buffer_size[0] = DCBSIM_BUFFER_BYTES;
	if (profile == MLX5)
		mlx5_reset(port);
	if (profile == IRDMA)
		irdma_reset(port);
	port->dcbx = dcbsim_mode(port);
}

/* Cuts "eth1:mlx5" in two; returns the place of the second word in `names`, or `otherwise` without one. */
static int dcbsim_word(char *text, const char *const *names, size_t count, int otherwise)
{
	char *word = strchr(text, ':');

	if (!word)
		return otherwise;
	*word++ = '\0';
	return match_string(names, count, word);
}

static struct dcbsim_port *dcbsim_named(const char *name)
{
	struct net_device *dev = __dev_get_by_name(&init_net, name);

	return dev ? port_of(dev) : NULL;
}

static int dcbsim_attach(char *name)
{
	int profile = dcbsim_word(name, profile_names, ARRAY_SIZE(profile_names), PLAIN);
	struct dcbsim_port *port;
	struct net_device *dev;

	ASSERT_RTNL();
	if (profile < 0)
		return profile;
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
	port->dev = dev;
	INIT_DELAYED_WORK(&port->later, dcbsim_later);
	dev_hold(dev);
	list_add_tail(&port->node, &ports);
	dcbsim_reset(port, profile);
	return 0;
}

static void dcbsim_settle(struct dcbsim_port *port)
{
	cancel_delayed_work_sync(&port->later);
	if (port->link_down)
		netif_carrier_on(port->dev);
	port->link_down = false;
}

static void dcbsim_release(struct dcbsim_port *port)
{
	ASSERT_RTNL();
	dcbsim_settle(port);
	port->dev->dcbnl_ops = NULL;
	list_del(&port->node);
	dev_put(port->dev);
	kfree(port);
}

static int dcbsim_detach(char *name)
{
	struct dcbsim_port *port = dcbsim_named(name);

	if (!port)
		return -ENODEV;
	dcbsim_release(port);
	return 0;
}

static int dcbsim_profile(char *name)
{
	int profile = dcbsim_word(name, profile_names, ARRAY_SIZE(profile_names), -EINVAL);
	struct dcbsim_port *port = dcbsim_named(name);

	if (profile < 0)
		return profile;
	if (!port)
		return -ENODEV;
	dcbsim_settle(port);
	dcbsim_reset(port, profile);
	return 0;
}

static int dcbsim_owner(char *name)
{
	int owner = dcbsim_word(name, owner_names, ARRAY_SIZE(owner_names), -EINVAL);
	struct dcbsim_port *port = dcbsim_named(name);

	if (owner < 0)
		return owner;
	if (!port)
		return -ENODEV;
	port->owner = owner;
	port->dcbx = dcbsim_mode(port);
	return 0;
}

static int dcbsim_refuse(char *name)
{
	int refusal = dcbsim_word(name, refusal_names, ARRAY_SIZE(refusal_names), -EINVAL);
	struct dcbsim_port *port = dcbsim_named(name);

	if (refusal < 0)
		return refusal;
	if (!port)
		return -ENODEV;
	if (refusal == NONE)
		port->refused = 0;
	else
		__set_bit(refusal, &port->refused);
	return 0;
}

/* Applies one of the functions above to each word of a comma-separated list. */
static int dcbsim_each(const char *list, int (*apply)(char *name))
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

/* Shows ports as a list that could be written as well; with the word that `word` gives each, if any. */
static int dcbsim_show(char *text, const char *(*word)(const struct dcbsim_port *port))
{
	struct dcbsim_port *port;
	int length = 0;

	rtnl_lock();
	list_for_each_entry(port, &ports, node)
		length += scnprintf(text + length, PAGE_SIZE - length, "%s%s%s%s", length ? "," : "",
				    port->dev->name, word ? ":" : "", word ? word(port) : "");
	rtnl_unlock();
	return length + scnprintf(text + length, PAGE_SIZE - length, "\n");
}

static const char *profile_word(const struct dcbsim_port *port)
{
	return profile_names[port->profile];
}

static const char *owner_word(const struct dcbsim_port *port)
{
	return owner_names[port->owner];
}

static int attach_set(const char *value, const struct kernel_param *kp)
{
	return dcbsim_each(value, dcbsim_attach);
}

static int attach_get(char *text, const struct kernel_param *kp)
{
	return dcbsim_show(text, NULL);
}

static int detach_set(const char *value, const struct kernel_param *kp)
{
	return dcbsim_each(value, dcbsim_detach);
}

static int profile_set(const char *value, const struct kernel_param *kp)
{
	return dcbsim_each(value, dcbsim_profile);
}

static int profile_get(char *text, const struct kernel_param *kp)
{
	return dcbsim_show(text, profile_word);
}

static int dcbx_set(const char *value, const struct kernel_param *kp)
{
	return dcbsim_each(value, dcbsim_owner);
}

static int dcbx_get(char *text, const struct kernel_param *kp)
{
	return dcbsim_show(text, owner_word);
}

static int refuse_set(const char *value, const struct kernel_param *kp)
{
	return dcbsim_each(value, dcbsim_refuse);
}

static const struct kernel_param_ops attach_ops = { .set = attach_set, .get = attach_get };
static const struct kernel_param_ops detach_ops = { .set = detach_set };
static const struct kernel_param_ops profile_ops = { .set = profile_set, .get = profile_get };
static const struct kernel_param_ops dcbx_ops = { .set = dcbx_set, .get = dcbx_get };
static const struct kernel_param_ops refuse_ops = { .set = refuse_set };

module_param_cb(attach, &attach_ops, NULL, 0644);
MODULE_PARM_DESC(attach, "network devices that get DCB state, comma separated");
module_param_cb(detach, &detach_ops, NULL, 0200);
MODULE_PARM_DESC(detach, "network devices that lose it again, comma separated");
module_param_cb(profile, &profile_ops, NULL, 0644);
MODULE_PARM_DESC(profile, "device:plain|mlx5|bnxt|bnxt3|irdma, comma separated: whose rules it follows");
module_param_cb(dcbx, &dcbx_ops, NULL, 0644);
MODULE_PARM_DESC(dcbx, "device:host|willing|firmware, comma separated: who sets it");
module_param_cb(refuse, &refuse_ops, NULL, 0200);
MODULE_PARM_DESC(refuse, "device:none|pfc|ets|app|buffer, comma separated: what it refuses");

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
