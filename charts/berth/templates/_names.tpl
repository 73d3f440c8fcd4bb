{{- /*
With `helm upgrade --reuse-values` a release keeps the values of its earlier version, without newer
defaults. So a value that Berth's first version lacked has its default also where it is used.
*/ -}}

{{- /* An image's reference, by its digest if one is given. Only the registry has no default. */ -}}
{{- define "berth.image" -}}
{{- $image := .root.Values.image -}}
{{- if not $image.registry -}}
{{- fail "image.registry is not set: run `make images REGISTRY=<host>/<path>`, which builds the images and pushes them there, and then give the same place with --set image.registry=<host>/<path>" -}}
{{- end -}}
{{- if not (regexMatch "^(\\[[0-9A-Fa-f:]+\\]|[A-Za-z0-9][A-Za-z0-9.-]*)(:[0-9]+)?(/[a-z0-9._-]+)*$" $image.registry) -}}
{{- fail (printf "image.registry is %q: give a host, a port if it needs one, and a path, such as registry.example:5000/team; no scheme, no slash at the end" $image.registry) -}}
{{- end -}}
{{- with dig .program "" ($image.digests | default dict) }}
{{- $image.registry }}/{{ $.name }}@{{ . }}
{{- else }}
{{- $image.registry }}/{{ .name }}:{{ $image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* The labels of every object. */ -}}
{{- define "berth.labels" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* The labels that select the controller's pods. */ -}}
{{- define "berth.controller.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/component: controller
{{- end -}}

{{- /* The labels that select the daemon's pods. */ -}}
{{- define "berth.daemon.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/component: daemon
{{- end -}}

{{- /* The user names of the service accounts in the apiserver. */ -}}
{{- define "berth.controller.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:kruise-manager
{{- end -}}
{{- define "berth.daemon.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:kruise-daemon
{{- end -}}

{{- /* CEL: the controller sends the request. */ -}}
{{- define "berth.policy.controller" -}}
- name: the-controller
  expression: request.userInfo.username == '{{ include "berth.controller.user" . }}'
{{- end -}}

{{- /* The binding that enforces the policy of the same name: by a refusal, or by the given
    `actions`. */ -}}
{{- define "berth.policy.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels: {{- include "berth.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: {{ .actions | default (list "Deny") | toJson }}
{{- end -}}

{{- /*
Berth's kinds, as YAML, from the file that is generated from proto/api/src/kinds.rs. Each has its
group, kind, plural, stored version, whether it is converted, and the kinds that the controller
creates for its objects.
*/ -}}
{{- define "berth.kinds" -}}
{{ .Files.Get "files/kinds.yaml" }}
{{- end -}}

{{- /* The API groups of Berth's kinds, as a list. */ -}}
{{- define "berth.groups" -}}
{{- $groups := list -}}
{{- range (include "berth.kinds" . | fromYaml).kinds -}}
{{- $groups = append $groups .group -}}
{{- end -}}
{{ $groups | uniq | toJson }}
{{- end -}}

{{- /* CEL: Berth's kinds as they are stored, such as 'clonesets.v1beta1.apps.kruise.io'. */ -}}
{{- define "berth.stored" -}}
{{- $stored := list -}}
{{- range (include "berth.kinds" . | fromYaml).kinds -}}
{{- $stored = append $stored (printf "%s.%s.%s" .plural .stored .group) -}}
{{- end -}}
{{ $stored | toJson | replace "\"" "'" }}
{{- end -}}

{{- /* CEL: `owner` names, in a served version, a kind of Berth for which the controller creates
    `of`, such as pods; or the kind `kind`. */ -}}
{{- define "berth.owner.named" -}}
{{- $kinds := list -}}
{{- range $kind := (include "berth.kinds" .root | fromYaml).kinds -}}
{{- if or (has $.of .owns) (eq ($.kind | default "") .kind) -}}
{{- range .served -}}
{{- $kinds = append $kinds (printf "%s/%s %s" $kind.group . $kind.kind) -}}
{{- end -}}
{{- end -}}
{{- end -}}
(owner.apiVersion + ' ' + owner.kind in {{ $kinds | toJson | replace "\"" "'" }} && owner.uid != '')
{{- end -}}

{{- /* CEL: `owner` also is the controlling owner. */ -}}
{{- define "berth.owner" -}}
(owner.?controller.orValue(false) && {{ include "berth.owner.named" . }})
{{- end -}}

{{- /* The names of these kinds, for messages. */ -}}
{{- define "berth.owners" -}}
{{- $kinds := list -}}
{{- range (include "berth.kinds" .root | fromYaml).kinds -}}
{{- if has $.of .owns -}}
{{- $kinds = append $kinds .kind -}}
{{- end -}}
{{- end -}}
{{ join " or " $kinds }}
{{- end -}}

{{- /* The label of a CloneSet's pod and of this pod's claims. */ -}}
{{- define "berth.instance" -}}
apps.kruise.io/cloneset-instance-id
{{- end -}}

{{- /* The annotation of a pod, from its template, that lets the controller release it from its
    ReplicaSet. */ -}}
{{- define "berth.surge" -}}
apps.kruise.io/surge-on-eviction
{{- end -}}

{{- /* The annotation of a StatefulSet's claim that lets the controller give it an owner. */ -}}
{{- define "berth.claimOwner" -}}
apps.kruise.io/owned-by-asts
{{- end -}}

{{- /* CEL: the namespaces in which the controller writes no pod. */ -}}
{{- define "berth.protectedNamespaces" -}}
{{ append (dig "protectedNamespaces" (list "kube-system") .Values.controller) .Release.Namespace | uniq | toJson | replace "\"" "'" }}
{{- end -}}

{{- /* CEL: the namespace selector of the entry `webhook` lists no protected namespace, or leaves
    all of them out. */ -}}
{{- define "berth.sparesProtected" -}}
{{- $protected := include "berth.protectedNamespaces" . -}}
webhook.?namespaceSelector.?matchExpressions.orValue([]).exists(e, e.key == 'kubernetes.io/metadata.name' && (e.operator == 'In'
? !e.values.exists(name, name in {{ $protected }}) : e.operator == 'NotIn' && {{ $protected }}.all(name, name in e.values)))
{{- end -}}

{{- /* `true`, or empty without the validating webhook. */ -}}
{{- define "berth.validatingWebhook" -}}
{{- if dig "install" true (.Values.validatingWebhook | default dict) }}true{{ end -}}
{{- end -}}

{{- /* `true` if the feature gate `name` is on, which is off by default; `stage` (default Alpha)
    names the group of gates that turns it on with others. */ -}}
{{- define "berth.gate" -}}
{{- $gates := .root.Values.controller.featureGates | default "" -}}
{{- if or (regexMatch (printf "(^|,)%s=true" .name) $gates) (and (regexMatch (printf "(^|,)All%s=true" (.stage | default "Alpha")) $gates) (not (regexMatch (printf "(^|,)%s=false" .name) $gates))) }}true{{ end -}}
{{- end -}}

{{- /* `true` if labels protect objects from deletion. */ -}}
{{- define "berth.deletionProtection" -}}
{{ include "berth.gate" (dict "root" . "name" "ResourcesDeletionProtection" "stage" "Beta") }}
{{- end -}}

{{- /* `true` if the webhook counts the content of a namespace, or the objects of a kind, before its
    deletion. */ -}}
{{- define "berth.deletionGuard" -}}
{{- if and (include "berth.deletionProtection" .) (include "berth.validatingWebhook" .) }}true{{ end -}}
{{- end -}}

{{- /* `true` if the webhook counts the objects of a kind, too. */ -}}
{{- define "berth.deletionGuardOfKinds" -}}
{{- if and (include "berth.deletionGuard" .) (include "berth.gate" (dict "root" . "name" "DeletionProtectionForCRDCascadingGate")) }}true{{ end -}}
{{- end -}}

{{- /* The name and the condition of the webhook's entry for this: webhook.yaml has the entry, and
    policy-webhooks.yaml enforces its fields. */ -}}
{{- define "berth.guard" -}}
guard-deletion.policy.kruise.io
{{- end -}}
{{- define "berth.guard.condition" -}}
!has(oldObject.metadata.deletionTimestamp)
{{- end -}}

{{- /* The version in which the apiserver has MutatingAdmissionPolicies, or empty. */ -}}
{{- define "berth.mutatingPolicyVersion" -}}
{{- $versions := .Capabilities.APIVersions -}}
{{- if $versions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}admissionregistration.k8s.io/v1
{{- else if $versions.Has "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy" -}}admissionregistration.k8s.io/v1beta1
{{- end -}}
{{- end -}}

{{- /* The component that pins pods of other controllers' workloads: policy, webhook or none. */ -}}
{{- define "berth.podPinning" -}}
{{- $by := dig "by" "auto" (.Values.podPinning | default dict) -}}
{{- if ne $by "auto" -}}{{ $by }}
{{- else if include "berth.mutatingPolicyVersion" . -}}policy
{{- else -}}webhook
{{- end -}}
{{- end -}}

{{- /* `true` if budgets are listed among the kinds and the webhook reserves from them before pods
    are deleted, evicted or changed. */ -}}
{{- define "berth.podBudgets" -}}
{{- $kinds := splitList "," (.Values.controller.customResourceEnable | default "") -}}
{{- $gates := .Values.controller.featureGates | default "" -}}
{{- $asks := or (not (regexMatch "(^|,)PodUnavailableBudgetDeleteGate=false" $gates)) (include "berth.gate" (dict "root" . "name" "PodUnavailableBudgetUpdateGate")) -}}
{{- if and $asks (or (has "PodUnavailableBudget" $kinds) (has "DistributedPodDisruptionBudget" $kinds)) }}true{{ end -}}
{{- end -}}

{{- /* `true` if the controller works on `kind`. */ -}}
{{- define "berth.has" -}}
{{- $kinds := .root.Values.controller.customResourceEnable | default "" -}}
{{- if or (eq $kinds "") (has .kind (splitList "," $kinds)) }}true{{ end -}}
{{- end -}}

{{- /* `true` if the controller serves a mutating webhook: for SidecarSets, for readiness gates, for
    ContainerRecreateRequests, or to pin pods. */ -}}
{{- define "berth.podWebhook" -}}
{{- $gates := .Values.controller.featureGates | default "" -}}
{{- $changes := and (or (include "berth.has" (dict "root" . "kind" "SidecarSet")) (include "berth.has" (dict "root" . "kind" "ContainerRecreateRequest")) (include "berth.podBudgets" .)) (not (regexMatch "(^|,)PodWebhook=false" $gates)) -}}
{{- if or $changes (eq (include "berth.podPinning" .) "webhook") }}true{{ end -}}
{{- end -}}

{{- /* Privileges that neither program needs. */ -}}
{{- define "berth.container.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- /*
The account's token, valid for an hour. The token of Kubernetes' own volume is extended to a year by
most apiservers, otherwise old clients would fail; Berth's programs read the token again.
*/ -}}
{{- define "berth.token.volume" -}}
- name: kube-api-access-hour
  projected:
    sources:
      - serviceAccountToken: {expirationSeconds: 3600, path: token}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
      - downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}
{{- end -}}
{{- define "berth.token.mount" -}}
- name: kube-api-access-hour
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
{{- end -}}

{{- define "berth.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- /* Where a pod may run: the same values for both programs. */ -}}
{{- define "berth.scheduling" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* The groups whose members no budget stops. */}}
{{- define "berth.exempt" -}}
{{- $groups := (.Values.budgets | default dict).exempt | default list }}
{{- range $groups }}
{{- if has . (list "system:authenticated" "system:unauthenticated" "system:serviceaccounts") }}
{{- fail (printf "budgets.exempt: %s has everybody or all workloads as members, so budgets would hold nothing: name a group of administrators" .) }}
{{- end }}
{{- end }}
{{- join "," $groups }}
{{- end }}

{{- /*
CEL: the workload of a subset, outside of protected namespaces. The same kind owns it and has
subsets before and after; or it is created for one, or adopted unchanged because it has no
controller.
*/ -}}
{{- define "berth.subset" -}}
{{- $of := dict "root" . "of" "deployments" -}}
!(request.namespace in {{ include "berth.protectedNamespaces" . }}) && request.?subResource.orValue('') == '' &&
(request.operation != 'CREATE' && oldObject.metadata.?ownerReferences.orValue([]).exists(owner, {{ include "berth.owner" $of }})
? request.operation == 'DELETE' ||
object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
: request.operation != 'DELETE' && object.metadata.?ownerReferences.orValue([]).exists(owner, {{ include "berth.owner" $of }}) &&
'apps.kruise.io/subset-name' in object.metadata.?labels.orValue({}) &&
(request.operation == 'CREATE' ||
(size(object.metadata.ownerReferences) == 1 + size(oldObject.metadata.?ownerReferences.orValue([])) &&
oldObject.metadata.?ownerReferences.orValue([]).all(owner, !owner.?controller.orValue(false) && owner in object.metadata.ownerReferences) &&
object.spec == oldObject.spec && ['labels', 'annotations'].all(field, object.metadata[?field] == oldObject.metadata[?field]))))
{{- end -}}
