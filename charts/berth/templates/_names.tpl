{{- /* An image's reference; the one thing that has no default. */ -}}
{{- define "berth.image" -}}
{{- $image := .root.Values.image -}}
{{- if not $image.registry -}}
{{- fail "image.registry is not set: run `make images REGISTRY=<host>/<path>`, which builds the images and pushes them there, and then give the same place with --set image.registry=<host>/<path>" -}}
{{- end -}}
{{- if not (regexMatch "^(\\[[0-9A-Fa-f:]+\\]|[A-Za-z0-9][A-Za-z0-9.-]*)(:[0-9]+)?(/[a-z0-9._-]+)*$" $image.registry) -}}
{{- fail (printf "image.registry is %q: give a host, a port if it needs one, and a path, such as registry.example:5000/team; no scheme, no slash at the end" $image.registry) -}}
{{- end -}}
{{ $image.registry }}/{{ .name }}:{{ $image.tag | default .root.Chart.AppVersion }}
{{- end -}}

{{- /* What every object carries. */ -}}
{{- define "berth.labels" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* What selects the controller's pods. */ -}}
{{- define "berth.controller.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/component: controller
{{- end -}}

{{- /* What selects the daemon's pods. */ -}}
{{- define "berth.daemon.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/component: daemon
{{- end -}}

{{- /* The users that the service accounts are to the apiserver. */ -}}
{{- define "berth.controller.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:kruise-manager
{{- end -}}
{{- define "berth.daemon.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:kruise-daemon
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
