// A `fetch` that answers from a list, and notes what it was asked.

/** A response of the host: data, or a refusal by its name. */
export function answer(data, headers = {}) {
  return () => new Response(JSON.stringify({ code: 0, data }), { headers })
}

export function problem(status, error, retryable, headers = {}, more = {}) {
  const body = { type: `urn:oncehost:error:${error}`, title: error, status, detail: `${error} it is`, code: 1, error, retryable, requestId: 'r', ...more }
  return () => new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/problem+json', ...headers } })
}

export const lost = () => { throw new TypeError('fetch failed') }
export const gateway = status => () => new Response('<h1>gateway</h1>', { status })
export const cut = () => new Response('{"code":0,"data":{"a"')

/** Waits until the signal fires, as a request that nobody answers does. */
export const silence = ({ signal }) => new Promise((_, reject) => {
  if (signal.aborted) reject(signal.reason)
  signal.addEventListener('abort', () => reject(signal.reason))
})

/** Answers from the list in turn; asked once more than that, it fails the test. */
export function fakeFetch(...answers) {
  const asked = []
  const fetch = async (url, init) => {
    asked.push({ url, ...init, key: init.headers['idempotency-key'] })
    const next = answers.shift()
    if (next === undefined) throw new Error('asked more often than expected')
    return next(init)
  }
  return { fetch, asked }
}

/** Pauses that no test has to wait for. */
export const HASTE = { first: 0, longest: 0 }
