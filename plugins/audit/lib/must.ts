import type { Result } from '@oncehost/sdk/plugin'

/** The data of a result, or the host's error thrown as it is: the invocation then leaves nothing behind. */
export function must<T>(result: Result<T>): T {
  if (!result.ok) throw result.error
  return result.data
}
