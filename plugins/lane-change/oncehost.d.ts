// Written by oncehost from schema.sql, flows/ and handlers/: by `dev` on each reload, and by `oncehost types`.
// The host does not read it. What you change here is lost.
import '@oncehost/sdk/plugin'

declare module '@oncehost/sdk/plugin' {
  interface Tables {
    lane_change_event: {
      record: {
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
      insert: {
        id?: string | undefined
        event_key: string
        crossed_at: string | Date
        obj_id: string
        region_id: string
        camera_id?: string | null | undefined
        from_lane?: number | bigint | null | undefined
        to_lane?: number | bigint | null | undefined
        speed_kmh?: number | null | undefined
        status?: string | undefined
        video_file_id?: string | null | undefined
      }
    }
  }

  interface Flows {
    'lane-change-postprocess': { event_id: unknown; video_file_id: unknown }
  }

  interface Topics {
    'lane-change.event-created': unknown
    'lane-change.status-changed': unknown
  }
}
