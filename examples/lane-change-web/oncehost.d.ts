// Written by `oncehost types --client`. What you change here is lost.
import '@oncehost/sdk'

declare module '@oncehost/sdk' {
  interface Plugins {
    'lane-change': {
      /** Binds a video to an event that waits for one, and starts what comes after. Of racing callers one binds. */
      'lane-change.bind-video': {
        kind: 'write'
        key: 'required'
        input: { event_id: string; video_file_id: string }
        output: {
          event_id: string
          bound: boolean
          status: string
          video_file_id: string | null
          workflow_id: string | null
        }
      }
      /** Records a crossing, once for each event_key, whatever the number of calls and of their keys. */
      'lane-change.create-event': {
        kind: 'write'
        key: 'required'
        input: {
          event_key: string
          /** a time with a zone, to the millisecond at most, such as 2026-01-31T08:30:00.000Z or 2026-01-31T16:30:00+08:00 */
          crossed_at: string
          obj_id: string
          region_id: string
          camera_id?: string | undefined
          from_lane?: number | undefined
          to_lane?: number | undefined
          speed_kmh?: number | undefined
          sent_at?: string | undefined
        }
        output: { event_id: string; created: boolean; status: string }
      }
      /** One event, whole. */
      'lane-change.get-event': {
        kind: 'read'
        key: 'optional'
        input: { event_id: string }
        output: {
          id: string
          event_key: string
          crossed_at: string
          obj_id: string
          region_id: string
          camera_id: string | null
          from_lane: number | null
          to_lane: number | null
          speed_kmh: number | null
          status: string
          video_file_id: string | null
          createdAt: string
          updatedAt: string
        }
      }
      /** A page of events by the time of crossing. The next page is asked for with the same filters and `cursor`. */
      'lane-change.list-events': {
        kind: 'read'
        key: 'optional'
        input: {
          region_id?: string | undefined
          obj_id?: string | undefined
          status?: 'pending_video' | 'video_bound' | 'pushed' | undefined
          /** crossed at this instant or later: a time with a zone, to the millisecond at most, such as 2026-01-31T08:30:00.000Z or 2026-01-31T16:30:00+08:00 */
          from?: string | undefined
          /** crossed before this instant: a time with a zone, to the millisecond at most, such as 2026-01-31T08:30:00.000Z or 2026-01-31T16:30:00+08:00 */
          until?: string | undefined
          newest_first?: boolean | undefined
          limit?: number | undefined
          /** next_cursor of the page before */
          cursor?: string | undefined
        }
        output: {
          events: {
            id: string
            event_key: string
            crossed_at: string
            obj_id: string
            region_id: string
            camera_id: string | null
            from_lane: number | null
            to_lane: number | null
            speed_kmh: number | null
            status: string
            video_file_id: string | null
            createdAt: string
            updatedAt: string
          }[]
          next_cursor: string | null
        }
      }
      /** Takes a clip off an event that it does not show, so that another one can be bound. A step of the flow. */
      'lane-change.put-back': {
        kind: 'write'
        key: 'optional'
        input: { event_id: string; video_file_id: string }
        output: { event_id: string; put_back: boolean; status: string }
      }
    }
  }

  interface Topics {
    'lane-change.event-created': unknown
    'lane-change.status-changed': unknown
  }
}
