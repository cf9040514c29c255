show configuration sessions detail | json
!fabricctl {"require": "\"sessions\"", "why": "the switch does not show its configuration sessions: what waits to be confirmed is not known", "rc": 1}
!fabricctl {"refuse": "\"pendingCommitTimer\"|\"commitTimerSessionName\": *\"[^\"]", "why": "another change waits to be confirmed here (show configuration sessions); confirm it or let its timer revert it", "rc": 75}
configure session fabricctl-apply-1-0001
qos map dscp 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23 24 25 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 to traffic-class 0
qos map traffic-class 1 to tx-queue 0
qos map traffic-class 2 to tx-queue 0
qos map traffic-class 4 to tx-queue 0
qos map traffic-class 5 to tx-queue 0
hardware counter feature ecn out
qos profile fabricctl-7d800ca4ba
qos trust dscp
service-policy type qos input SITE-IN
priority-flow-control on
priority-flow-control priority 3 no-drop
priority-flow-control pause watchdog
priority-flow-control pause watchdog port timer timeout 0.4 polling-interval 0.2 recovery-time 0.4
priority-flow-control pause watchdog port action drop
tx-queue 0
no priority
bandwidth percent 50
exit
tx-queue 3
no priority
bandwidth percent 50
bandwidth guaranteed percent 1
random-detect ecn minimum-threshold 150000 bytes maximum-threshold 1500000 bytes max-mark-probability 100
random-detect ecn count
shape rate 90 percent
exit
tx-queue 6
priority strict
exit
exit
interface Ethernet1/1
service-profile fabricctl-7d800ca4ba
exit
interface Ethernet2/1
mtu 9214
flowcontrol send off
flowcontrol receive off
default qos trust
service-profile fabricctl-7d800ca4ba
exit
show session-config diffs
end
configure session fabricctl-apply-1-0001 commit timer 00:10:00
show configuration sessions detail | json
!fabricctl {"require": "\"fabricctl-apply-1-0001\": *\\{(?:[^{}]|\\{[^{}]*\\})*\"pendingCommitTimer\"|\"commitTimerSessionName\": *\"fabricctl-apply-1-0001\"", "why": "fabricctl-apply-1-0001 was not committed with a timer", "rc": 1}
