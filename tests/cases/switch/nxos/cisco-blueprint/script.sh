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
interface Ethernet1/1-2
end
