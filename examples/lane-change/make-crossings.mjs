// Makes crossings.ndjson: what five cameras of one road report in a morning. The same seed gives the same file.
//
//   node examples/lane-change/make-crossings.mjs > examples/lane-change/crossings.ndjson

const LINES = 1000
const START = Date.UTC(2026, 2, 12, 6, 0)
const MORNING = 5 * 60 * 60 * 1000

/** A small generator of numbers in [0, 1) that depends on its seed alone (mulberry32). */
function randomFrom(seed) {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

const random = randomFrom(20260312)
const between = (low, high) => low + random() * (high - low)
const oneOf = list => list[Math.floor(random() * list.length)]

const cameras = [
  { id: 'cam-north-01', regions: ['r-north-in', 'r-north-out'], lanes: 4 },
  { id: 'cam-bridge-01', regions: ['r-bridge'], lanes: 3 },
  { id: 'cam-bridge-02', regions: ['r-bridge', 'r-bridge-ramp'], lanes: 3 },
  { id: 'cam-tunnel-01', regions: ['r-tunnel-mouth'], lanes: 2 },
  { id: 'cam-south-01', regions: ['r-south-in', 'r-south-out'], lanes: 4 },
]

/** A time of the morning, most often around the rush hour in its middle. */
function crossingTime() {
  const rush = (random() + random() + random()) / 3
  return Math.round(START + MORNING * (random() < 0.7 ? rush : random()))
}

function crossing() {
  const camera = oneOf(cameras)
  const from = Math.floor(between(1, camera.lanes + 1))
  const to = from === 1 ? 2 : from === camera.lanes ? from - 1 : from + oneOf([-1, 1])
  return {
    camera_id: camera.id,
    region_id: oneOf(camera.regions),
    obj_id: '',
    crossed_at: crossingTime(),
    from_lane: from,
    to_lane: to,
    speed_kmh: Math.round(between(22, 96) * 10) / 10,
  }
}

/** When a camera sends its report, and when it sends it again: seconds later, up to three times. */
function sendings(fact) {
  const times = [fact.crossed_at + Math.round(between(40, 900))]
  while (times.length < 4 && random() < 0.07) times.push(times.at(-1) + Math.round(between(2000, 30000)))
  return times
}

const facts = Array.from({ length: LINES }, crossing).sort((a, b) => a.crossed_at - b.crossed_at)
const tracks = new Map(cameras.map(({ id }) => [id, 18200]))
const reports = []
for (const fact of facts) {
  // A camera numbers all that it sees, and only some of that changes lanes.
  const track = tracks.get(fact.camera_id) + Math.floor(between(1, 30))
  tracks.set(fact.camera_id, track)
  fact.obj_id = `${fact.camera_id.slice(4)}-${String(track).padStart(6, '0')}`
  for (const sent_at of sendings(fact)) reports.push({ ...fact, sent_at })
}
reports.sort((a, b) => a.sent_at - b.sent_at)
reports.length = LINES
for (const report of reports) {
  const iso = millis => new Date(millis).toISOString()
  console.log(JSON.stringify({ ...report, crossed_at: iso(report.crossed_at), sent_at: iso(report.sent_at) }))
}
