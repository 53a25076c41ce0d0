// What calls that are no ops' tell, and what they are given: the structs of quern.h, documented there. Made
// of quern.h by ./dev generate.
// SPDX-License-Identifier: Apache-2.0

package quern

// #include "callbacks.h"
import "C"

// DeviceInfo is quern_device_info.
type DeviceInfo struct {
	DeviceType     int32
	DeviceId       int32
	WarpSize       uint32
	SmCount        uint32
	SharedPerBlock uint32
	L2Bytes        uint64
	MemoryBytes    uint64
	DriverVersion  uint32
	Target         string
	Name           string
}

func newDeviceInfo(from *C.quern_device_info) DeviceInfo {
	return DeviceInfo{
		DeviceType:     int32(from.device_type),
		DeviceId:       int32(from.device_id),
		WarpSize:       uint32(from.warp_size),
		SmCount:        uint32(from.sm_count),
		SharedPerBlock: uint32(from.shared_per_block),
		L2Bytes:        uint64(from.l2_bytes),
		MemoryBytes:    uint64(from.memory_bytes),
		DriverVersion:  uint32(from.driver_version),
		Target:         C.GoString(&from.target[0]),
		Name:           C.GoString(&from.name[0]),
	}
}

// Stats is quern_stats.
type Stats struct {
	KernelsLoaded uint64
	CacheHits     uint64
	CacheMisses   uint64
	Compiled      uint64
	CompileErrors uint64
	Rejected      uint64
	Stored        uint64
	StoreErrors   uint64
	FlightWaits   uint64
	Pending       uint64
	CompileMs     float64
	LoadMs        float64
}

func newStats(from *C.quern_stats) Stats {
	return Stats{
		KernelsLoaded: uint64(from.kernels_loaded),
		CacheHits:     uint64(from.cache_hits),
		CacheMisses:   uint64(from.cache_misses),
		Compiled:      uint64(from.compiled),
		CompileErrors: uint64(from.compile_errors),
		Rejected:      uint64(from.rejected),
		Stored:        uint64(from.stored),
		StoreErrors:   uint64(from.store_errors),
		FlightWaits:   uint64(from.flight_waits),
		Pending:       uint64(from.pending),
		CompileMs:     float64(from.compile_ms),
		LoadMs:        float64(from.load_ms),
	}
}

// Event is quern_event.
type Event struct {
	Kind         int32
	Op           string
	Target       string
	Key          string
	Text         string
	Milliseconds float64
	Status       int32
}

func newEvent(from *C.quern_event) Event {
	return Event{
		Kind:         int32(from.kind),
		Op:           C.GoString(from.op),
		Target:       C.GoString(from.target),
		Key:          C.GoString(from.key),
		Text:         C.GoString(from.text),
		Milliseconds: float64(from.milliseconds),
		Status:       int32(from.status),
	}
}

// IndexFault is quern_fault.
type IndexFault struct {
	Op       string
	Argument string
	Text     string
	Call     uint64
	Row      int64
	Column   int64
	Value    int64
	Least    int64
	Most     int64
}

func newIndexFault(from *C.quern_fault) IndexFault {
	return IndexFault{
		Op:       C.GoString(from.op),
		Argument: C.GoString(from.argument),
		Text:     C.GoString(from.text),
		Call:     uint64(from.call),
		Row:      int64(from.row),
		Column:   int64(from.column),
		Value:    int64(from.value),
		Least:    int64(from.least),
		Most:     int64(from.most),
	}
}

// WarmResult is quern_warm_result.
type WarmResult struct {
	Outcome      int32
	Status       int32
	Line         uint32
	Op           string
	Target       string
	Key          string
	Spec         string
	Text         string
	Milliseconds float64
}

func newWarmResult(from *C.quern_warm_result) WarmResult {
	return WarmResult{
		Outcome:      int32(from.outcome),
		Status:       int32(from.status),
		Line:         uint32(from.line),
		Op:           C.GoString(from.op),
		Target:       C.GoString(from.target),
		Key:          C.GoString(from.key),
		Spec:         C.GoString(from.spec),
		Text:         C.GoString(from.text),
		Milliseconds: float64(from.milliseconds),
	}
}

// TuneResult is quern_tune_result.
type TuneResult struct {
	Outcome           int32
	Status            int32
	Line              uint32
	Op                string
	Product           string
	Choice            string
	ModelChoice       string
	Text              string
	Rows              int64
	Microseconds      float64
	ModelMicroseconds float64
	Candidates        uint32
}

func newTuneResult(from *C.quern_tune_result) TuneResult {
	return TuneResult{
		Outcome:           int32(from.outcome),
		Status:            int32(from.status),
		Line:              uint32(from.line),
		Op:                C.GoString(from.op),
		Product:           C.GoString(from.product),
		Choice:            C.GoString(from.choice),
		ModelChoice:       C.GoString(from.model_choice),
		Text:              C.GoString(from.text),
		Rows:              int64(from.rows),
		Microseconds:      float64(from.microseconds),
		ModelMicroseconds: float64(from.model_microseconds),
		Candidates:        uint32(from.candidates),
	}
}

// Entry is quern_entry.
type Entry struct {
	Layer       int32
	Key         string
	Op          string
	Target      string
	EntryName   string
	Text        string
	Compiler    string
	Log         string
	Image       []byte
	ImageSize   uint64
	Created     int64
	LastUse     uint64
	CompileMs   float64
	Registers   int32
	SharedBytes int32
	LocalBytes  int32
	Kind        int32
}

func newEntry(from *C.quern_entry) Entry {
	return Entry{
		Layer:       int32(from.layer),
		Key:         C.GoString(from.key),
		Op:          C.GoString(from.op),
		Target:      C.GoString(from.target),
		EntryName:   C.GoString(from.entry_name),
		Text:        C.GoString(from.text),
		Compiler:    C.GoString(from.compiler),
		Log:         C.GoString(from.log),
		Image:       bytesOf(from.image, from.image_size),
		ImageSize:   uint64(from.image_size),
		Created:     int64(from.created),
		LastUse:     uint64(from.last_use),
		CompileMs:   float64(from.compile_ms),
		Registers:   int32(from.registers),
		SharedBytes: int32(from.shared_bytes),
		LocalBytes:  int32(from.local_bytes),
		Kind:        int32(from.kind),
	}
}

// Finding is quern_finding.
type Finding struct {
	Status int32
	What   string
	Text   string
	Hint   string
}

func newFinding(from *C.quern_finding) Finding {
	return Finding{
		Status: int32(from.status),
		What:   C.GoString(from.what),
		Text:   C.GoString(from.text),
		Hint:   C.GoString(from.hint),
	}
}

// TrimResult is quern_trim_result.
type TrimResult struct {
	Removed     uint64
	Kept        uint64
	BytesBefore uint64
	BytesAfter  uint64
}

func newTrimResult(from *C.quern_trim_result) TrimResult {
	return TrimResult{
		Removed:     uint64(from.removed),
		Kept:        uint64(from.kept),
		BytesBefore: uint64(from.bytes_before),
		BytesAfter:  uint64(from.bytes_after),
	}
}

// CacheStats is quern_cache_stats.
type CacheStats struct {
	State         int32
	Entries       uint64
	ImageBytes    uint64
	FileBytes     uint64
	Limit         uint64
	Bundles       uint64
	BundleEntries uint64
	Path          string
	Reason        string
}

func newCacheStats(from *C.quern_cache_stats) CacheStats {
	return CacheStats{
		State:         int32(from.state),
		Entries:       uint64(from.entries),
		ImageBytes:    uint64(from.image_bytes),
		FileBytes:     uint64(from.file_bytes),
		Limit:         uint64(from.limit),
		Bundles:       uint64(from.bundles),
		BundleEntries: uint64(from.bundle_entries),
		Path:          C.GoString(&from.path[0]),
		Reason:        C.GoString(&from.reason[0]),
	}
}

// VerifyResult is quern_verify_result.
type VerifyResult struct {
	Outcome      int32
	Status       int32
	Trials       uint32
	Op           string
	Target       string
	Key          string
	Spec         string
	Text         string
	Error        float64
	TruthError   float64
	Milliseconds float64
}

func newVerifyResult(from *C.quern_verify_result) VerifyResult {
	return VerifyResult{
		Outcome:      int32(from.outcome),
		Status:       int32(from.status),
		Trials:       uint32(from.trials),
		Op:           C.GoString(from.op),
		Target:       C.GoString(from.target),
		Key:          C.GoString(from.key),
		Spec:         C.GoString(from.spec),
		Text:         C.GoString(from.text),
		Error:        float64(from.error),
		TruthError:   float64(from.truth_error),
		Milliseconds: float64(from.milliseconds),
	}
}

// KernelInfo is quern_kernel_info.
type KernelInfo struct {
	Registers   int32
	SharedBytes int32
	LocalBytes  int32
	MaxThreads  int32
	Key         string
}

func newKernelInfo(from *C.quern_kernel_info) KernelInfo {
	return KernelInfo{
		Registers:   int32(from.registers),
		SharedBytes: int32(from.shared_bytes),
		LocalBytes:  int32(from.local_bytes),
		MaxThreads:  int32(from.max_threads),
		Key:         C.GoString(&from.key[0]),
	}
}

// Options is quern_context_options.
type Options struct {
	Device           Device
	Flags            uint32
	MissPolicy       int32
	CompileThreads   int32
	Target           string
	CachePath        string
	Bundles          []string
	SearchDirs       []string
	HelperPath       string
	HostCompiler     string
	CompilerPin      string
	CacheLimit       uint64
	CompileTimeoutMs uint32
	FlightTimeoutMs  uint32
	HostSeed         uint64
	HostThreads      uint32
	LogLevel         int32
	Log              func(level int32, text string)
	Event            func(Event)
	TrustedKeys      []string
	CacheKey         string
	MaxKernels       uint64
}

func (o *Options) raw(held *holder) *C.quern_context_options {
	made := (*C.quern_context_options)(held.allocate(C.sizeof_quern_context_options))
	made.size = C.sizeof_quern_context_options
	made.flags = C.uint32_t(o.Flags)
	made.device_type = C.int32_t(o.Device.Type)
	made.device_id = C.int32_t(o.Device.ID)
	made.miss_policy = C.int32_t(o.MissPolicy)
	made.compile_threads = C.int32_t(o.CompileThreads)
	made.target = held.text("target", o.Target)
	made.cache_path = held.text("cache_path", o.CachePath)
	made.bundles, made.bundle_count = held.texts("bundles", o.Bundles), C.uint64_t(len(o.Bundles))
	made.search_dirs, made.search_dir_count = held.texts("search_dirs", o.SearchDirs), C.uint64_t(len(o.SearchDirs))
	made.helper_path = held.text("helper_path", o.HelperPath)
	made.host_compiler = held.text("host_compiler", o.HostCompiler)
	made.compiler_pin = held.text("compiler_pin", o.CompilerPin)
	made.cache_limit = C.uint64_t(o.CacheLimit)
	made.compile_timeout_ms = C.uint32_t(o.CompileTimeoutMs)
	made.flight_timeout_ms = C.uint32_t(o.FlightTimeoutMs)
	made.host_seed = C.uint64_t(o.HostSeed)
	made.host_threads = C.uint32_t(o.HostThreads)
	made.log_level = C.int32_t(o.LogLevel)
	if o.Log != nil {
		made.log = C.quern_log_callback(C.quernGoLog)
		made.log_user = held.handle(o.Log)
	}
	if o.Event != nil {
		made.event = C.quern_event_callback(C.quernGoEvent)
		made.event_user = held.handle(o.Event)
	}
	made.trusted_keys, made.trusted_key_count = held.texts("trusted_keys", o.TrustedKeys), C.uint64_t(len(o.TrustedKeys))
	made.cache_key = held.text("cache_key", o.CacheKey)
	made.max_kernels = C.uint64_t(o.MaxKernels)
	return made
}

// Model is quern_model.
type Model struct {
	Flags                  uint32
	TensorParallel         uint32
	HiddenSize             uint32
	IntermediateSize       uint32
	Layers                 uint32
	Heads                  uint32
	KvHeads                uint32
	HeadDim                uint32
	VHeadDim               uint32
	VocabSize              uint32
	MaxPositions           uint32
	SlidingWindow          uint32
	Experts                uint32
	ExpertsPerToken        uint32
	ExpertIntermediateSize uint32
	KvLoraRank             uint32
	QLoraRank              uint32
	RopeHeadDim            uint32
	PageSize               uint32
	LogitCap               float32
	Dtype                  DType
	KvDtype                DType
	SharedExperts          uint32
	Activation             int32
	RotaryDim              uint32
	FinalLogitCap          float32
	IndexHeads             uint32
	IndexHeadDim           uint32
	IndexTopK              uint32
}

func (o *Model) raw(held *holder) *C.quern_model {
	made := (*C.quern_model)(held.allocate(C.sizeof_quern_model))
	made.size = C.sizeof_quern_model
	made.flags = C.uint32_t(o.Flags)
	made.tensor_parallel = C.uint32_t(o.TensorParallel)
	made.hidden_size = C.uint32_t(o.HiddenSize)
	made.intermediate_size = C.uint32_t(o.IntermediateSize)
	made.layers = C.uint32_t(o.Layers)
	made.heads = C.uint32_t(o.Heads)
	made.kv_heads = C.uint32_t(o.KvHeads)
	made.head_dim = C.uint32_t(o.HeadDim)
	made.v_head_dim = C.uint32_t(o.VHeadDim)
	made.vocab_size = C.uint32_t(o.VocabSize)
	made.max_positions = C.uint32_t(o.MaxPositions)
	made.sliding_window = C.uint32_t(o.SlidingWindow)
	made.experts = C.uint32_t(o.Experts)
	made.experts_per_token = C.uint32_t(o.ExpertsPerToken)
	made.expert_intermediate_size = C.uint32_t(o.ExpertIntermediateSize)
	made.kv_lora_rank = C.uint32_t(o.KvLoraRank)
	made.q_lora_rank = C.uint32_t(o.QLoraRank)
	made.rope_head_dim = C.uint32_t(o.RopeHeadDim)
	made.page_size = C.uint32_t(o.PageSize)
	made.logit_cap = C.float(o.LogitCap)
	made.dtype = o.Dtype.raw()
	made.kv_dtype = o.KvDtype.raw()
	made.shared_experts = C.uint32_t(o.SharedExperts)
	made.activation = C.int32_t(o.Activation)
	made.rotary_dim = C.uint32_t(o.RotaryDim)
	made.final_logit_cap = C.float(o.FinalLogitCap)
	made.index_heads = C.uint32_t(o.IndexHeads)
	made.index_head_dim = C.uint32_t(o.IndexHeadDim)
	made.index_top_k = C.uint32_t(o.IndexTopK)
	return made
}

// WarmOptions is quern_warm_options.
type WarmOptions struct {
	Flags    uint32
	Targets  []string
	Manifest string
	Model    *Model
	Progress func(done, total uint64, result WarmResult) (cancel bool)
}

func (o *WarmOptions) raw(held *holder) *C.quern_warm_options {
	made := (*C.quern_warm_options)(held.allocate(C.sizeof_quern_warm_options))
	made.size = C.sizeof_quern_warm_options
	made.flags = C.uint32_t(o.Flags)
	made.targets, made.target_count = held.texts("targets", o.Targets), C.uint64_t(len(o.Targets))
	made.manifest = held.text("manifest", o.Manifest)
	made.manifest_length = C.uint64_t(len(o.Manifest))
	if o.Model != nil {
		made.model = o.Model.raw(held)
	}
	if o.Progress != nil {
		made.progress = C.quern_warm_callback(C.quernGoWarmResult)
		made.progress_user = progressOf(held, o.Progress)
	}
	return made
}

// TuneOptions is quern_tune_options.
type TuneOptions struct {
	Flags        uint32
	Manifest     string
	Model        *Model
	Rows         []int64
	Milliseconds float64
	Progress     func(done, total uint64, result TuneResult) (cancel bool)
}

func (o *TuneOptions) raw(held *holder) *C.quern_tune_options {
	made := (*C.quern_tune_options)(held.allocate(C.sizeof_quern_tune_options))
	made.size = C.sizeof_quern_tune_options
	made.flags = C.uint32_t(o.Flags)
	made.manifest = held.text("manifest", o.Manifest)
	made.manifest_length = C.uint64_t(len(o.Manifest))
	if o.Model != nil {
		made.model = o.Model.raw(held)
	}
	made.rows, made.row_count = held.numbers(o.Rows), C.uint64_t(len(o.Rows))
	made.milliseconds = C.double(o.Milliseconds)
	if o.Progress != nil {
		made.progress = C.quern_tune_callback(C.quernGoTuneResult)
		made.progress_user = progressOf(held, o.Progress)
	}
	return made
}

// TrimOptions is quern_trim_options.
type TrimOptions struct {
	Flags uint32
	Limit uint64
}

func (o *TrimOptions) raw(held *holder) *C.quern_trim_options {
	made := (*C.quern_trim_options)(held.allocate(C.sizeof_quern_trim_options))
	made.size = C.sizeof_quern_trim_options
	made.flags = C.uint32_t(o.Flags)
	made.limit = C.uint64_t(o.Limit)
	return made
}

// VerifyOptions is quern_verify_options.
type VerifyOptions struct {
	Flags    uint32
	Prefix   string
	Seed     uint64
	Progress func(done, total uint64, result VerifyResult) (cancel bool)
}

func (o *VerifyOptions) raw(held *holder) *C.quern_verify_options {
	made := (*C.quern_verify_options)(held.allocate(C.sizeof_quern_verify_options))
	made.size = C.sizeof_quern_verify_options
	made.flags = C.uint32_t(o.Flags)
	made.prefix = held.text("prefix", o.Prefix)
	made.seed = C.uint64_t(o.Seed)
	if o.Progress != nil {
		made.progress = C.quern_verify_callback(C.quernGoVerifyResult)
		made.progress_user = progressOf(held, o.Progress)
	}
	return made
}
