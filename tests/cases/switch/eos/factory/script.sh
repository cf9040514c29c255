show configuration sessions detail | json
!fabricctl {"require": "\"sessions\"", "why": "the switch does not show its configuration sessions: what waits to be confirmed is not known", "rc": 1}
!fabricctl {"refuse": "\"pendingCommitTimer\"|\"commitTimerSessionName\": *\"[^\"]", "why": "another change waits to be confirmed here (show configuration sessions); confirm it or let its timer revert it", "rc": 75}
configure session fabricctl-apply-1-0001
qos map dscp 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23 24 25 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 to traffic-class 0
qos map traffic-class 1 to uc-tx-queue 0
qos map traffic-class 2 to uc-tx-queue 0
qos map traffic-class 4 to uc-tx-queue 0
qos map traffic-class 5 to uc-tx-queue 0
qos profile fabricctl-e5036c5314
qos trust dscp
priority-flow-control on
priority-flow-control priority 3 no-drop
priority-flow-control pause watchdog
priority-flow-control pause watchdog port timer timeout 0.4 polling-interval 0.2 recovery-time 0.4
priority-flow-control pause watchdog port action drop
uc-tx-queue 0
no priority
bandwidth percent 50
exit
uc-tx-queue 3
no priority
bandwidth percent 50
bandwidth guaranteed percent 1
random-detect ecn minimum-threshold 150000 bytes maximum-threshold 1500000 bytes max-mark-probability 100 weight 0
random-detect ecn count
exit
uc-tx-queue 6
priority strict
exit
exit
interface Ethernet1/1
mtu 9214
service-profile fabricctl-e5036c5314
exit
interface Ethernet2/1
service-profile fabricctl-e5036c5314
exit
show session-config diffs
end
configure session fabricctl-apply-1-0001 commit timer 00:10:00
show configuration sessions detail | json
!fabricctl {"require": "\"fabricctl-apply-1-0001\": *\\{(?:[^{}]|\\{[^{}]*\\})*\"pendingCommitTimer\"|\"commitTimerSessionName\": *\"fabricctl-apply-1-0001\"", "why": "fabricctl-apply-1-0001 was not committed with a timer", "rc": 1}
