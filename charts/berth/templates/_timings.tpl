{{- /* A duration such as 1500ms, 15s, 10m or 8760h in milliseconds; values.schema.json refuses all
    other forms. */ -}}
{{- define "berth.milliseconds" -}}
{{- $number := regexFind "^[0-9]+" . | int64 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- mul $number (get (dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000) $unit) -}}
{{- end -}}

{{- /* The time after which an apiserver ends a request. */ -}}
{{- define "berth.apiserverRequestTimeout" -}}
{{ dig "apiserverRequestTimeout" "60s" (.Values.budgets | default dict) }}
{{- end -}}

{{- /* Times that must fit each other. The controller refuses others, too, and would not start.
    */ -}}
{{- define "berth.timings.check" -}}
{{- $election := .Values.controller.leaderElection -}}
{{- $lease := include "berth.milliseconds" $election.leaseDuration | int64 -}}
{{- $renew := include "berth.milliseconds" $election.renewDeadline | int64 -}}
{{- $retry := include "berth.milliseconds" $election.retryPeriod | int64 -}}
{{- if ge $renew $lease -}}
{{- fail (printf "controller.leaderElection: renewDeadline %s is not shorter than leaseDuration %s: a leader would go on when another has taken its lease; lower the first or raise the second" $election.renewDeadline $election.leaseDuration) -}}
{{- end -}}
{{- if ge (mul $retry 12) (mul $renew 10) -}}
{{- fail (printf "controller.leaderElection: retryPeriod %s times 1.2 is not shorter than renewDeadline %s: a leader would lose its lease before it renews it; lower the first or raise the second" $election.retryPeriod $election.renewDeadline) -}}
{{- end -}}
{{- $certificates := .Values.controller.certificates -}}
{{- $cert := include "berth.milliseconds" $certificates.certValidity | int64 -}}
{{- $ca := include "berth.milliseconds" $certificates.caValidity | int64 -}}
{{- if lt $cert 600000 -}}
{{- fail (printf "controller.certificates: certValidity %s is shorter than 10m: a certificate would be replaced before all clients trust the next one; raise it" $certificates.certValidity) -}}
{{- end -}}
{{- if lt $ca $cert -}}
{{- fail (printf "controller.certificates: caValidity %s is shorter than certValidity %s: a certificate ends with its authority; raise the first or lower the second" $certificates.caValidity $certificates.certValidity) -}}
{{- end -}}
{{- $timeout := include "berth.apiserverRequestTimeout" . -}}
{{- $request := include "berth.milliseconds" $timeout | int64 -}}
{{- if or (lt $request 5000) (gt $request 3600000) -}}
{{- fail (printf "budgets.apiserverRequestTimeout %s is not between 5s and 1h: what budgets granted would expire while it may still be carried out, or stand for longer than anybody waits; give the apiserver's --request-timeout" $timeout) -}}
{{- end -}}
{{- end -}}
