// What a view is given: where the reader is, of which problem and device.
import type {DeviceClass, Problem, Status} from './api';
import type {Route} from './route';

export interface Ctx {
  route: Route;
  status: Status;
  // Views that need no class or problem may find null.
  classes: DeviceClass[];
  cls: DeviceClass | null;
  problems: Problem[];
  problem: Problem | null;
  // Ends when the reader leaves the view.
  signal: AbortSignal;
  // Called with each new status, every two seconds.
  onStatus: (listener: (status: Status) => void) => void;
  // "8192×8192 float16 × int4 · NVIDIA H200": for the titles of images.
  subject: () => string;
  // The name of a file that holds this data.
  file: (what: string) => string;
}
