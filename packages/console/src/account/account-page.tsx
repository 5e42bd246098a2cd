import { useClient, useSession } from "../session/session.tsx";
import { CheckField, Form, TextField } from "../ui/form.tsx";
import { Part } from "../ui/facts.tsx";
import { StepUpFields, stepUp } from "./step-up.tsx";

import { ApiKeys } from "./api-keys.tsx";
import { SecurityEvents } from "./security-events.tsx";
import { Totp } from "./totp.tsx";

export function AccountPage() {
  return (
    <>
      <ApiKeys />
      <div className="columns">
        <Totp />
        <Password />
      </div>
      <SecurityEvents />
    </>
  );
}

function Password() {
  const client = useClient();
  const { replace } = useSession();
  return (
    <Part title="Password">
      <Form
        label="Change the password"
        action="Change it"
        done="Changed. Earlier sessions have ended."
        submit={async (values) =>
          replace(
            await client.auth.changePassword({
              ...stepUp(values),
              new_password: values.text("new"),
              revoke_keys: values.checked("keys"),
            }),
          )
        }
      >
        <StepUpFields />
        <TextField
          label="New password"
          name="new"
          type="password"
          autoComplete="new-password"
          required
        />
        <CheckField label="Revoke the keys that sessions made" name="keys" checked />
      </Form>
    </Part>
  );
}
