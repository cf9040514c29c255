! fabricctl apply-1 within 600
show scheduler schedule
!fabricctl {"allow": "Invalid"}
!fabricctl {"refuse": "Schedule Name\\s*: fabricctl-(?:(?!Schedule Name)[\\s\\S])*?(?:Yet to be executed|-NA-)", "why": "another change waits to be confirmed here; confirm it or let its timer revert it", "rc": 75}
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
configure terminal
interface Ethernet1/1-2
end
