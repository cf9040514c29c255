show configuration sessions detail | json
!fabricctl {"require": "\"sessions\"", "why": "the switch does not show its configuration sessions: what waits to be confirmed is not known", "rc": 1}
!fabricctl {"refuse": "\"pendingCommitTimer\"|\"commitTimerSessionName\": *\"[^\"]", "why": "another change waits to be confirmed here (show configuration sessions); confirm it or let its timer revert it", "rc": 75}
configure session fabricctl-apply-1-0001
! Ethernet1/1: 
! Ethernet2/1: 
show session-config diffs
end
configure session fabricctl-apply-1-0001 commit timer 00:10:00
show configuration sessions detail | json
!fabricctl {"require": "\"fabricctl-apply-1-0001\": *\\{(?:[^{}]|\\{[^{}]*\\})*\"pendingCommitTimer\"|\"commitTimerSessionName\": *\"fabricctl-apply-1-0001\"", "why": "fabricctl-apply-1-0001 was not committed with a timer", "rc": 1}
