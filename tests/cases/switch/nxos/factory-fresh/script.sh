! fabricctl apply-1 within 660
show scheduler schedule
!fabricctl {"allow": "Invalid"}
!fabricctl {"refuse": "Schedule Name\\s*: fabricctl-(?:(?!Schedule Name)[\\s\\S])*?(?:Yet to be executed|-NA-)", "why": "another apply waits to be confirmed here, \"show scheduler schedule\" names it: confirm it or let it revert; if it is over, \"no scheduler schedule name\" ends its timer", "rc": 75}
configure terminal
show running-config | include scheduler
!fabricctl {"each": "scheduler (schedule name fabricctl-[\\w-]+)(?![\\w-])", "line": "no scheduler {}"}
!fabricctl {"each": "scheduler (job name fabricctl-[\\w-]+)(?![\\w-])", "line": "no scheduler {}"}
end
show checkpoint summary
!fabricctl {"each": "(?<![\\w-])(fabricctl-[\\w-]+)(?![\\w-])", "line": "no checkpoint {}"}
configure terminal
feature scheduler
scheduler job name fabricctl-apply-1
rollback running-config checkpoint fabricctl-apply-1 atomic
end-job
scheduler schedule name fabricctl-apply-1
job name fabricctl-apply-1
time start @REVERT_AT@
end
checkpoint fabricctl-apply-1
show checkpoint summary
!fabricctl {"require": "(?<![\\w-])fabricctl-apply-1(?![\\w-])", "why": "the timer that would revert could not be started; nothing was changed", "rc": 77}
show running-config | include fabricctl-apply-1
!fabricctl {"require": "rollback running-config checkpoint fabricctl-apply-1(?![\\w-])", "why": "the timer that would revert could not be started; nothing was changed", "rc": 77}
show scheduler schedule
!fabricctl {"require": "Schedule Name\\s*: fabricctl-apply-1(?![\\w-])(?:(?!Schedule Name)[\\s\\S])*?Schedule Type\\s*: Run once[^\\n]*\\d(?:(?!Schedule Name)[\\s\\S])*?(?:Yet to be executed|-NA-)(?:(?!Schedule Name)[\\s\\S])*?fabricctl-apply-1(?![\\w-])", "why": "the timer that would revert could not be started; nothing was changed", "rc": 77}
configure terminal
class-map type qos match-any fabricctl-p3-29a68064
match dscp 26
class-map type qos match-any fabricctl-p6-c1f348f4
match dscp 48
policy-map type qos fabricctl-in-8b37ec78
class fabricctl-p3-29a68064
set qos-group 3
class fabricctl-p6-c1f348f4
set qos-group 7
class class-default
set qos-group 0
policy-map type queuing fabricctl-out-a78bd14e
class type queuing c-out-8q-q7
priority level 1
class type queuing c-out-8q-q6
bandwidth remaining percent 0
class type queuing c-out-8q-q5
bandwidth remaining percent 0
class type queuing c-out-8q-q4
bandwidth remaining percent 0
class type queuing c-out-8q-q3
bandwidth remaining percent 50
random-detect minimum-threshold 150000 bytes maximum-threshold 1500000 bytes drop-probability 7 weight 0 ecn
class type queuing c-out-8q-q2
bandwidth remaining percent 0
class type queuing c-out-8q-q1
bandwidth remaining percent 0
class type queuing c-out-8q-q-default
bandwidth remaining percent 50
policy-map type network-qos fabricctl-nq-ef093f07
class type network-qos c-8q-nq3
mtu 9216
pause pfc-cos 3
class type network-qos c-8q-nq-default
mtu 9216
interface Ethernet1/1-2
mtu 9216
service-policy type qos input fabricctl-in-8b37ec78
system qos
service-policy type network-qos fabricctl-nq-ef093f07
interface Ethernet1/1-2
priority-flow-control mode on
service-policy type queuing output fabricctl-out-a78bd14e
priority-flow-control watch-dog-interval on
exit
priority-flow-control watch-dog-interval on
priority-flow-control watch-dog interval 200
priority-flow-control watch-dog shutdown-multiplier 2
priority-flow-control auto-restore multiplier 2
priority-flow-control fixed-restore multiplier 0
!fabricctl {"allow": "."}
end
