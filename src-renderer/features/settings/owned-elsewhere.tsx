import { Button, Text } from '@mantine/core';
import type { StatusView } from '#shared/api/schema.ts';
import { openThisComputer } from '../../app/this-computer.ts';
import { Page, Section } from '../../components/page.tsx';
import { plainText } from '../../format/plain-text.ts';
import { KeysSection } from './keys-section.tsx';
import { SecretSection } from './secret-section.tsx';
import { SignInSection } from './sign-in-section.tsx';

/**
 * Settings as they are seen at the address of a machine that only lends: what is the covey's can be done here too;
 * what is the machine's is its owner's, and the controller's own is set there.
 */
export function OwnedElsewhere({ status }: { readonly status: StatusView | undefined }) {
  const name = status === undefined ? 'the controller' : plainText(status.name);
  return (
    <Page title="Settings" lead="Of the covey, as far as they can be changed from this machine.">
      <div className="columns settings-columns">
        <div>
          <Section
            title="This machine"
            lead="When and how far it is lent is up to whoever sits at it."
            actions={
              <Button component="a" href="/machine" size="xs" variant="default" onClick={openThisComputer}>
                This computer
              </Button>
            }
          >
            <Text size="sm">Its rules stand on its own page, which works without {name} too.</Text>
          </Section>
          <Section title="The controller">
            <Text size="sm">
              What {name} lends, how it is found and who may call it over the network is set there: open
              Settings in the dashboard on {name} itself.
            </Text>
          </Section>
        </div>
        <div>
          <KeysSection />
          <SignInSection lanAddresses={[]} />
          <SecretSection />
        </div>
      </div>
    </Page>
  );
}
